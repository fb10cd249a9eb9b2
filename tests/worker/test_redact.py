"""Secrets are taken out of what is shown: those of this process, and whatever has the shape of one."""

import pytest

from worker.redact import redacted

ENVIRONMENT = {
    "CASTALIA_DATABASE_URL": "postgresql://castalia:hunter22@db:5432/castalia",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
    "PIN_TOKEN": "1234",
    "PATH": "/usr/bin",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password hunter22 refused", "password [redacted] refused"),
        ("wJalrXUtnFEMI/K7MDENG", "[redacted]"),
        ("redis://:open@host:6379/0", "redis://[redacted]@host:6379/0"),
        ("key sk-castalia-abcdefghijklm is bad", "key [redacted] is bad"),
        ("HF_TOKEN=hf_abcdefghijklmnop", "HF_TOKEN=[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
    ],
)
def test_a_secret_is_not_shown(text, shown):
    assert redacted(text, ENVIRONMENT) == shown


@pytest.mark.parametrize(
    "text", ["step 1234 of 5000", "look in /usr/bin", "see https://host:8000/v1 at 12:30"]
)
def test_ordinary_words_are_left_alone(text):
    assert redacted(text, ENVIRONMENT) == text
