"""Why a trainer ended that could not say so itself: told by its exit code or signal.

exit code      code                   whose fault   tried again
10 spec        spec_refused           user
11 data        data_refused           user
12 memory      out_of_memory          capacity
13 diverged    loss_not_finite        user
16 disk        insufficient_disk      platform      yes
SIGKILL        killed, or host_out_of_memory where the kernel says so   capacity   yes
other signals  trainer_crashed        platform      yes
anything else  internal_error         platform      yes
"""

import signal
from pathlib import Path

from core.spec.errors import ExitCode, Fault, JobError
from core.spec.run import RANKS_FOLDER
from worker.last_words import last_line
from worker.redact import redacted

MEMORY_HINT = "lower trainer.context_length, tokens_per_pass or stream.chunk_tokens"
KILLED_HINT = f"the host may have run out of memory; {MEMORY_HINT}"
HOST_HINT = f"the kernel ended a process for want of memory; {MEMORY_HINT}, or take a larger host"
CRASH_HINTS = {
    signal.SIGSEGV: "a fault of compiled code; look at the log, and at versions of driver and torch",
    signal.SIGBUS: "memory that is mapped could not be had; look at /dev/shm and at the disk",
    signal.SIGABRT: "compiled code gave up; the log says why",
}
_DECODED: dict[int, tuple[str, Fault, bool, str]] = {
    ExitCode.spec: ("spec_refused", "user", False, "correct the job and create it anew"),
    ExitCode.data: ("data_refused", "user", False, "look at the file's validation"),
    ExitCode.out_of_memory: ("out_of_memory", "capacity", False, MEMORY_HINT),
    ExitCode.diverged: ("loss_not_finite", "user", False, "lower trainer.learning_rate"),
    ExitCode.disk: ("insufficient_disk", "platform", True, "free some space on the worker's disk"),
}


def error_of(exit_code: int, directory: Path, *, host_short: bool = False) -> JobError:
    """What to show for an exit code, with the last line of the trainer's log.

    ``host_short``: whether the kernel killed somebody for want of memory meanwhile.
    """
    if exit_code < 0:
        return _of_signal(_signal(-exit_code), directory, host_short=host_short)
    names = {code.value: code.name for code in ExitCode}
    name = names.get(exit_code, f"exit code {exit_code}")
    code, fault, retryable, hint = _DECODED.get(
        exit_code, ("internal_error", "platform", True, "the log says more")
    )
    message = f"the trainer ended without a reason ({name}); {_words(directory)}"
    return JobError(code=code, message=message, fault=fault, retryable=retryable, hint=hint)


def stalled(step: int, seconds: float) -> JobError:
    """The trainer lived and did nothing."""
    return JobError(
        code="stalled",
        message=f"nothing was heard of the trainer for {seconds:.0f} s after step {step}",
        fault="platform",
        retryable=True,
        hint="look at the log and at the device; a setting says how long is too long",
        last_step=step,
    )


def unexpected(error: Exception) -> JobError:
    """The worker itself failed."""
    return JobError(
        code="internal_error",
        message=f"the worker failed: {type(error).__name__}: {redacted(str(error))}",
        fault="platform",
        retryable=True,
        hint="the worker's log has the traceback",
    )


def _of_signal(name: str, directory: Path, *, host_short: bool) -> JobError:
    if name == signal.SIGKILL.name:
        return JobError(
            code="host_out_of_memory" if host_short else "killed",
            message=f"the trainer was killed by SIGKILL{_of_rank(directory)}",
            fault="capacity",
            retryable=True,
            hint=HOST_HINT if host_short else KILLED_HINT,
        )
    return JobError(
        code="trainer_crashed",
        message=f"the trainer was ended by {name}; {_words(directory)}",
        fault="platform",
        retryable=True,
        hint={number.name: hint for number, hint in CRASH_HINTS.items()}.get(name),
    )


def _of_rank(directory: Path) -> str:
    """Of several processes the launcher says last which it was."""
    return f"; {_words(directory)}" if (directory / RANKS_FOLDER).is_dir() else ""


def _words(directory: Path) -> str:
    return f"its last words: {last_line(directory)}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
