"""A worker knows what memory its trainers can have, without having torch in its own process."""

import sys

import pytest

from core.streambp.plan.budget import host_free_bytes
from worker.device import UNKNOWN, Device, find_device


def test_what_is_free_now_is_found():
    found = find_device()
    assert found.name
    assert found.bytes > 0
    if found.name == "cpu":
        assert found.bytes < 4 * host_free_bytes()


@pytest.mark.parametrize(
    "code",
    ["raise SystemExit('there is no torch')", "print('{}')", "print('not JSON')", "print('[1]')"],
)
def test_a_host_that_cannot_tell_has_an_unknown_device(code, caplog):
    assert find_device((sys.executable, "-c", code)) == Device(UNKNOWN, None)
    assert "the device is not known" in caplog.text


def test_the_last_words_of_the_question_are_logged(caplog):
    find_device((sys.executable, "-c", "raise SystemExit('there is no torch')"))
    assert "there is no torch" in caplog.text
