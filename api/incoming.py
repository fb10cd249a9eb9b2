"""Files on their way in, whole or in parts: their names, purposes and bytes."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from api.agreement import invalid
from core.store.files import TRAINING_PURPOSE

PURPOSES = (TRAINING_PURPOSE, "evals", "user_data")
LONGEST_NAME = 255
SHORTEST_LIFE_S, LONGEST_LIFE_S = 3600, 2_592_000
READ_BYTES = 2**20
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def checked_purpose(purpose: str) -> str:
    """The purpose of a file that a user sends. Raises ApiError."""
    if purpose not in PURPOSES:
        raise invalid("purpose", f"'{purpose}' is not one of: {', '.join(PURPOSES)}")
    return purpose


def checked_name(name: str | None) -> str:
    """The name under which a file is kept: as it was sent, but in one line and of a bearable length."""
    return CONTROLS.sub("", name or "")[-LONGEST_NAME:] or "upload"


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """A spooled body, a piece at a time."""
    while chunk := file.read(READ_BYTES):
        yield chunk


def checked_lifetime(anchor: str | None, seconds: int | None) -> int | None:
    """How long a file is to stay, in seconds; None: until it is deleted. Raises ApiError."""
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise invalid("expires_after[anchor]", "must be 'created_at'")
    if seconds is None or not SHORTEST_LIFE_S <= seconds <= LONGEST_LIFE_S:
        bounds = f"from {SHORTEST_LIFE_S} to {LONGEST_LIFE_S}"
        raise invalid("expires_after[seconds]", f"{seconds} is not a number of seconds {bounds}")
    return seconds
