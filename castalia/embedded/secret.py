"""A password that only the owner of the folder can read.

The one idea: made once, whole or not at all (written aside, then renamed), mode 0600 from its
first byte. The alphabet is URL-safe, so it goes into a URL or a configuration file as it is.
"""

import os
import secrets
from pathlib import Path

from castalia.embedded.account import hand_to_owner


def make_secret(path: Path) -> None:
    """Write 32 random bytes, as text, unless the file is there; its folder must exist."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32) + "\n")


def read_secret(path: Path) -> str:
    """Read the password in `path`; FileNotFoundError before `make_secret`."""
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Write `text` into a 0600 file that belongs to the owner of its folder, atomically."""
    aside = path.with_name(path.name + ".new")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    hand_to_owner(aside)
    aside.rename(path)
