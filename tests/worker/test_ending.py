"""A trainer that could not say why it ended is described by its exit code and its last words."""

import signal

import pytest

from core.spec.errors import ExitCode
from core.spec.run import LOG_FILE
from worker.ending import error_of, stalled, unexpected

TOLD = "its last words: oh"


@pytest.fixture
def directory(tmp_path):
    (tmp_path / LOG_FILE).write_bytes(b"first\n\xffoh\n\n")
    return tmp_path


@pytest.mark.parametrize(
    ("exit_code", "code", "fault", "retryable", "words"),
    [
        (-signal.SIGKILL, "killed", "capacity", True, "killed by SIGKILL"),
        (-signal.SIGSEGV, "trainer_crashed", "platform", True, f"ended by SIGSEGV; {TOLD}"),
        (-64, "trainer_crashed", "platform", True, "ended by SIGRTMAX"),
        (-63, "trainer_crashed", "platform", True, "ended by signal 63"),
        (ExitCode.spec, "spec_refused", "user", False, f"(spec); {TOLD}"),
        (ExitCode.data, "data_refused", "user", False, f"(data); {TOLD}"),
        (ExitCode.out_of_memory, "out_of_memory", "capacity", False, f"(out_of_memory); {TOLD}"),
        (ExitCode.diverged, "loss_not_finite", "user", False, "(diverged)"),
        (ExitCode.disk, "insufficient_disk", "platform", True, "(disk)"),
        (ExitCode.unexpected, "internal_error", "platform", True, "(unexpected)"),
        (77, "internal_error", "platform", True, f"(exit code 77); {TOLD}"),
    ],
)
def test_the_exit_code_tells_the_kind(directory, exit_code, code, fault, retryable, words):
    error = error_of(exit_code, directory)
    assert (error.code, error.fault, error.retryable) == (code, fault, retryable)
    assert words in error.message.replace("\ufffd", "")


def test_a_kill_beside_a_host_short_of_memory_is_told_as_such(directory):
    error = error_of(-signal.SIGKILL, directory, host_short=True)
    assert (error.code, error.fault, error.retryable) == ("host_out_of_memory", "capacity", True)
    assert error_of(-signal.SIGSEGV, directory, host_short=True).code == "trainer_crashed"


def test_a_trainer_that_said_nothing_has_no_last_words(tmp_path):
    assert error_of(1, tmp_path).message.endswith("its last words: none")
    (tmp_path / LOG_FILE).write_bytes(b"")
    assert error_of(1, tmp_path).message.endswith("its last words: none")


def test_what_is_the_platform_s_fault_is_tried_again():
    for error in (stalled(3, 60.0), unexpected(ValueError("oh"))):
        assert (error.fault, error.retryable) == ("platform", True)
    assert stalled(3, 60.0).last_step == 3


def test_a_worker_s_failure_is_shown_without_its_secrets(monkeypatch):
    monkeypatch.setenv("STORE_SECRET_KEY", "correct-horse")
    error = unexpected(ValueError("wrong key correct-horse at s3://u:pass@host"))
    assert error.message == (
        "the worker failed: ValueError: wrong key [redacted] at s3://[redacted]@host"
    )
