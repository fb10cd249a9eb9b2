"""Secrets do not leave this process in what it shows of a log: its own, and whatever looks like one."""

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

SHORTEST_SECRET = 6
REDACTED = "[redacted]"
_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SHAPES = re.compile(
    r"\b(?:sk-|hf_|ghp_|AKIA)[\w-]{12,}"  # API keys, by their public beginnings
    r"|(?<=://)[^\s/:@]*:[^\s/@]+(?=@)"  # user and password in a URL
    r"|(?<=bearer )\S+",
    re.IGNORECASE,
)


def redacted(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """``text`` without the secrets of ``environment``, and without what has the shape of one."""
    for secret in sorted(_secrets(environment), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return _SHAPES.sub(REDACTED, text)


def _secrets(environment: Mapping[str, str]) -> set[str]:
    found = {value for name, value in environment.items() if _NAMES.search(name)}
    found |= {_password(value) for value in environment.values() if "://" in value}
    return {secret for secret in found if len(secret) >= SHORTEST_SECRET}


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""
