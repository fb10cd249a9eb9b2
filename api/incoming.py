"""Files on their way in, whole or in parts: their names, purposes and bytes."""

from collections.abc import Iterator
from typing import BinaryIO

from api.agreement import invalid
from core.store.files import TRAINING_PURPOSE

PURPOSES = (TRAINING_PURPOSE, "evals", "user_data")
LONGEST_NAME = 255
READ_BYTES = 2**20


def checked_purpose(purpose: str) -> str:
    """The purpose of a file that a user sends. Raises ApiError."""
    if purpose not in PURPOSES:
        raise invalid("purpose", f"'{purpose}' is not one of: {', '.join(PURPOSES)}")
    return purpose


def checked_name(name: str | None) -> str:
    """The name under which a file is kept."""
    return (name or "upload").replace("\x00", "")[-LONGEST_NAME:]


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """A spooled body, a piece at a time."""
    while chunk := file.read(READ_BYTES):
        yield chunk
