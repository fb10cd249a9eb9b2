"""A folder of kept rows, shared by all runs of one user: bounded, and never a reason for a run to fail.

An entry appears by a rename, so two processes that keep the same rows write the same entry twice. Using an
entry makes it the newest; where there is no room, the oldest go. What cannot be read, or is not what its
name says, is told and read anew from the user's file.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

from transformers import PreTrainedTokenizerBase

from core.train.cache.entry import BrokenEntryError, opened, sealed
from core.train.cache.key import day_of, key_of, tokenizer_digest
from core.train.lessons.reading import FileRows, Reading

ENTRY = ".rows"
PART = ".part"
ABANDONED_S = 3600
"""Age at which a part was left behind by a process that died."""


@dataclass(frozen=True, slots=True)
class CachePlace:
    """Where rows are kept, and how many bytes of them at most."""

    folder: Path
    limit_bytes: int


class RowCache:
    """The kept rows of one tokenizer. ``tell`` takes the code and the words of a warning."""

    def __init__(
        self,
        place: CachePlace,
        tokenizer: PreTrainedTokenizerBase,
        tell: Callable[[str, str], None],
    ) -> None:
        self._place = place
        self._tell = tell
        self._tokenizer = tokenizer_digest(tokenizer)
        self._day = day_of(tokenizer, datetime.now().astimezone())

    def key(self, content: str, how: Reading) -> str:
        """Where the rows of a file with this digest are kept."""
        return key_of(content, how, self._tokenizer, self._day)

    def find(self, key: str) -> FileRows | None:
        """The rows of a key, or None."""
        path = self._path(key)
        try:
            found = opened(key, path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, BrokenEntryError) as error:
            self._warn(f"the kept rows in {path} are not used and the file is read again: {error}")
            return None
        with suppress(OSError):  # others' entries may be read and not touched
            os.utime(path)
        return found

    def keep(self, key: str, found: FileRows) -> None:
        """Keep the rows of a key, if they can be kept."""
        entry = sealed(key, found)
        if len(entry) > self._place.limit_bytes:
            self._warn(
                f"rows of {len(entry):,} bytes are not kept: the cache holds at most "
                f"{self._place.limit_bytes:,}"
            )
            return
        try:
            self._place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(entry))
            self._write(key, entry)
        except OSError as error:
            self._warn(f"rows are not kept in {self._place.folder}: {error.strerror or error}")

    def _write(self, key: str, entry: bytes) -> None:
        with NamedTemporaryFile(dir=self._place.folder, suffix=PART, delete=False) as part:
            try:
                part.write(entry)
                part.flush()
                Path(part.name).replace(self._path(key))
            finally:
                Path(part.name).unlink(missing_ok=True)

    def _make_room(self, wanted: int) -> None:
        """Remove what a dead process left, and the least recently used until ``wanted`` bytes fit."""
        for path, stat in self._files(PART):
            if stat.st_mtime < time.time() - ABANDONED_S:
                path.unlink(missing_ok=True)
        entries = sorted(self._files(ENTRY), key=lambda found: found[1].st_mtime_ns)
        taken = sum(stat.st_size for _, stat in entries)
        for path, stat in entries:
            if taken + wanted <= self._place.limit_bytes:
                return
            path.unlink(missing_ok=True)
            taken -= stat.st_size

    def _files(self, suffix: str) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._place.folder.glob(f"*{suffix}"):
            with suppress(FileNotFoundError):  # another process was faster
                yield path, path.stat()

    def _path(self, key: str) -> Path:
        return self._place.folder / f"{key}{ENTRY}"

    def _warn(self, words: str) -> None:
        self._tell("rows.not_cached", words)
