"""The name under which a file's encoded rows are kept: a hash of everything that they depend on.

    the file's bytes | how it is read (`Reading`) | the tokenizer with its chat template | the code

The tokenizer is hashed as it would be saved, so it counts what is in force and not which folder it came
from. The code is the source of what encodes, and the versions of the libraries that do: a mended encoder
finds nothing that the faulty one left. A template that asks for the date is good for a day.
"""

import hashlib
import json
from dataclasses import asdict
from datetime import datetime
from functools import cache
from importlib.metadata import version
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

import core
from core.train.lessons.reading import Reading

if TYPE_CHECKING:
    from hashlib import _Hash

_SOURCES = ("data", "train/cache", "train/lessons")
_LIBRARIES = ("jinja2", "tokenizers", "transformers")
_ASKS_FOR_THE_DATE = "strftime_now"


def content_digest(file: BufferedReader) -> str:
    """SHA-256 of a file from where it stands to its end, in hexadecimal."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """A hash of the files that a tokenizer would be saved as. Raises what saving raises."""
    found = hashlib.sha256(type(tokenizer).__qualname__.encode())
    with TemporaryDirectory(prefix="castalia-") as name:
        tokenizer.save_pretrained(name)
        _add_files(found, Path(name), "*")
    return found.hexdigest()


def key_of(content: str, how: Reading, tokenizer: str, day: str) -> str:
    """The key of rows by their file's digest, their reading, their tokenizer's digest, and `day_of`."""
    parts = {
        "content": content,
        "how": asdict(how),
        "tokenizer": tokenizer,
        "day": day,
        "code": code_digest(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def day_of(tokenizer: PreTrainedTokenizerBase, now: datetime) -> str:
    """The day, where the chat template may print it; else nothing."""
    asks = _ASKS_FOR_THE_DATE in json.dumps(tokenizer.chat_template)
    return now.date().isoformat() if asks else ""


@cache
def code_digest() -> str:
    """A hash of what encodes: our sources and the libraries' versions."""
    found = hashlib.sha256()
    for library in _LIBRARIES:
        found.update(f"{library} {version(library)}\n".encode())
    room = Path(str(core.__file__)).parent
    for folder in _SOURCES:
        _add_files(found, room / folder, "*.py")
    return found.hexdigest()


def _add_files(found: "_Hash", folder: Path, pattern: str) -> None:
    for path in sorted(folder.rglob(pattern)):
        if path.is_file():
            data = path.read_bytes()
            found.update(f"{path.relative_to(folder)} {len(data)}\n".encode())
            found.update(data)
