r"""A file's rows as the bytes of one entry, which are believed only if their hash is right.

    "castalia rows 1\n" | SHA-256 of key and payload | payload: safetensors

The key goes into the hash, so an entry that was moved under another name is refused as a damaged one is.
Nothing in it is ever executed: numbers are tensors, words are JSON.
"""

import hashlib
import json
from array import array
from collections import Counter
from dataclasses import asdict

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from core.data.digests import RowDigests
from core.data.lengths import Lengths
from core.data.overlength import LengthReport
from core.train.cache.flat import flatten, unflatten
from core.train.lessons.reading import FileRows, Rows

MAGIC = b"castalia rows 1\n"
_HEAD = len(MAGIC) + hashlib.sha256().digest_size


class BrokenEntryError(ValueError):
    """Bytes that are no entry of this key."""


def sealed(key: str, found: FileRows) -> bytes:
    """The entry of a file's rows."""
    columns, words = flatten(found.read.rows)
    words |= {
        "report": asdict(found.read.report),
        "lengths": list(found.read.lengths.powers.items()),
    }
    columns["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
    columns["row_lines"] = np.array(found.digests.lines, np.int64)
    columns["digests"] = np.frombuffer(bytes(found.digests.joined), np.uint8)
    payload = save(columns)
    return MAGIC + _seal(key, payload) + payload


def opened(key: str, entry: bytes) -> FileRows:
    """The rows of an entry, marked as cached. Raises BrokenEntryError."""
    payload = entry[_HEAD:]
    if not entry.startswith(MAGIC) or entry[len(MAGIC) : _HEAD] != _seal(key, payload):
        raise BrokenEntryError("it is damaged, or not of this key")
    try:
        columns = load(payload)
        words = json.loads(columns["words"].tobytes())
        rows = unflatten(columns, words)
        digests = RowDigests(
            array("Q", columns["row_lines"].tolist()), bytearray(columns["digests"].tobytes())
        )
        read = Rows(rows, LengthReport(**words["report"]), Lengths(Counter(dict(words["lengths"]))))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BrokenEntryError(f"it cannot be read: {error}") from error
    return FileRows(read, digests, cached=True)


def _seal(key: str, payload: bytes) -> bytes:
    seal = hashlib.sha256(key.encode())
    seal.update(payload)
    return seal.digest()
