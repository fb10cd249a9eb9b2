"""A trainer that could not say why it ended is described by its exit code and its last words."""

import signal

import pytest

from core.spec.run import LOG_FILE
from worker.ending import error_of


@pytest.mark.parametrize(
    ("exit_code", "code", "fault", "words"),
    [
        (-signal.SIGKILL, "killed", "capacity", "killed by SIGKILL"),
        (-signal.SIGSEGV, "trainer_crashed", "platform", "ended by SIGSEGV; its last words: oh"),
        (12, "internal_error", "platform", "(out_of_memory); its last words: oh"),
        (77, "internal_error", "platform", "(exit code 77); its last words: oh"),
    ],
)
def test_the_exit_code_tells_the_kind(tmp_path, exit_code, code, fault, words):
    (tmp_path / LOG_FILE).write_bytes(b"first\n\xffoh\n\n")
    error = error_of(exit_code, tmp_path)
    assert (error.code, error.fault, error.retryable) == (code, fault, True)
    assert words in error.message.replace("\ufffd", "")


def test_a_trainer_that_said_nothing_has_no_last_words(tmp_path):
    assert error_of(1, tmp_path).message.endswith("its last words: none")
    (tmp_path / LOG_FILE).write_bytes(b"")
    assert error_of(1, tmp_path).message.endswith("its last words: none")
