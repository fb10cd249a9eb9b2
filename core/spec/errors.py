"""What can end a run, whose fault it is, and the exit code that says so to the process above.

RunFailure                  raised where known, caught once in core.train.__main__
  carries a JobError        code, message, param, fault, hint: what the user is shown
  maps to an ExitCode       what the worker sees even when nothing else could be written
"""

from enum import IntEnum
from typing import Literal

from core.spec.tree import Spec

Fault = Literal["user", "platform", "capacity"]
"""Who can mend it. Only what is not the user's fault may be tried again."""


class ExitCode(IntEnum):
    """Exit codes of ``python -m core.train``, beside those that a shell or a signal gives."""

    done = 0
    unexpected = 1
    usage = 2
    spec = 10
    data = 11
    out_of_memory = 12
    diverged = 13
    interrupted = 14
    orphaned = 15
    disk = 16


class JobError(Spec):
    """Why a job failed, as the job object shows it."""

    code: str
    message: str
    param: str | None = None
    fault: Fault = "user"
    retryable: bool = False
    hint: str | None = None
    last_step: int | None = None
    needed_bytes: int | None = None
    """What the plan needs of a device, where that was more than is free."""
    log_file_id: str | None = None
    """The File with the end of the trainer's log, where one is kept."""


class RunFailure(Exception):
    """A run that cannot go on."""

    def __init__(self, error: JobError, exit_code: ExitCode) -> None:
        self.error = error
        self.exit_code = exit_code
        super().__init__(error.message)


def data_failure(
    code: str, message: str, *, param: str = "training_file", hint: str | None = None
) -> RunFailure:
    """The user's rows cannot be trained on."""
    return RunFailure(JobError(code=code, message=message, param=param, hint=hint), ExitCode.data)


def spec_failure(code: str, message: str, *, param: str, hint: str | None = None) -> RunFailure:
    """The user asked for something that cannot be done."""
    return RunFailure(JobError(code=code, message=message, param=param, hint=hint), ExitCode.spec)
