"""Why a trainer ended that could not say so itself."""

import signal
from pathlib import Path

from core.spec.errors import ExitCode, JobError
from core.spec.run import LOG_FILE

SHOWN_LOG_BYTES = 2000
KILLED_HINT = (
    "the host may have run out of memory; lower trainer.context_length or stream.chunk_tokens"
)


def error_of(exit_code: int, directory: Path) -> JobError:
    """What to show for an exit code, with the last line of the trainer's log."""
    last_line = _last_line(directory / LOG_FILE)
    if exit_code == -signal.SIGKILL:
        return JobError(
            code="killed",
            message="the trainer was killed by SIGKILL",
            fault="capacity",
            retryable=True,
            hint=KILLED_HINT,
        )
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        message = f"the trainer was ended by {name}; its last words: {last_line}"
        return JobError(code="trainer_crashed", message=message, fault="platform", retryable=True)
    known = {code.value: code.name for code in ExitCode}
    what = known.get(exit_code, f"exit code {exit_code}")
    message = f"the trainer ended without a reason ({what}); its last words: {last_line}"
    return JobError(code="internal_error", message=message, fault="platform", retryable=True)


def _last_line(path: Path) -> str:
    tail = path.read_bytes()[-SHOWN_LOG_BYTES:].decode(errors="replace") if path.exists() else ""
    lines = [line for line in tail.splitlines() if line.strip()]
    return lines[-1] if lines else "none"
