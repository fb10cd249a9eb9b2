"""Training files as people have them, made of the text in benchmarks/data; the same every time.

Most rows are plain turns; some have a weight, a tool call or columns of their own. Broken ones are JSON
still, so that a reader of JSON can be timed on the same file.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import zstandard

TEXT = Path(__file__).parent / "data" / "kjv.txt.gz"
BROKEN_EVERY = 1009
REPEATED_EVERY = 97
SHORT_BYTES = 100
COPY_BYTES = 2**20

_CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"n": 1}'}}
_BREAKS: tuple[Callable[[list[Any]], object], ...] = (
    lambda messages: messages[-1].update(role="oracle"),
    lambda messages: messages[0].pop("content"),
    lambda messages: messages.append({"role": "user", "content": "And then?"}),
)


@dataclass(frozen=True, slots=True)
class Written:
    """What stands in a file."""

    bytes: int = 0
    rows: int = 0
    broken: int = 0
    duplicates: int = 0


def write_chat(path: Path, size: int) -> Written:
    """Write chat rows of at least `size` bytes in all."""
    random, text = Random(0), _text()  # noqa: S311  rows are no secrets
    total = number = broken = duplicates = 0
    line = b""
    with path.open("wb") as file:
        while total < size:
            number += 1
            if number % BROKEN_EVERY == 0:
                messages = _messages(random, text, number)
                _BREAKS[broken % len(_BREAKS)](messages)
                line, broken = _line({"messages": messages}), broken + 1
            elif number % REPEATED_EVERY == 0 and (number - 1) % BROKEN_EVERY:
                duplicates += 1
            else:
                line = _line(_row(random, text, number))
            total += file.write(line)
    return Written(total, number, broken, duplicates)


def write_short(path: Path, size: int) -> Written:
    """Write different text rows of `SHORT_BYTES` bytes, of at least `size` bytes in all."""
    random, text = Random(1), _text()  # noqa: S311  as above
    rows = -(-size // SHORT_BYTES)
    room = SHORT_BYTES - len(_line({"text": "0" * 9}))
    with path.open("wb") as file:
        for number in range(rows):
            file.write(_line({"text": f"{number:09}{_piece(random, text, room)}"}))
    return Written(rows * SHORT_BYTES, rows)


@contextmanager
def packed(path: Path, kind: str) -> Iterator[Path]:
    """The file in a container, quickly compressed; gone afterwards."""
    beside = path.with_suffix(f".{kind}")
    packer = (
        zlib.compressobj(1, wbits=31)
        if kind == "gzip"
        else zstandard.ZstdCompressor(level=1).compressobj()
    )
    with path.open("rb") as source, beside.open("wb") as file:
        while piece := source.read(COPY_BYTES):
            file.write(packer.compress(piece))
        file.write(packer.flush())
    yield beside
    beside.unlink()


def _text() -> str:
    # Quotes and new lines are escaped in JSON, so a line of them would be longer than it looks.
    return gzip.decompress(TEXT.read_bytes()).decode().replace("\n", " ").replace('"', "'")


def _piece(random: Random, text: str, length: int) -> str:
    start = random.randrange(len(text) - length)
    return text[start : start + length]


def _messages(random: Random, text: str, number: int) -> list[dict[str, Any]]:
    """One to three questions and answers, from some words to some pages; no two rows are the same."""
    said: list[dict[str, Any]] = []
    for turn in range(random.choice((1, 1, 2, 3))):
        for role in ("user", "assistant"):
            length = min(int(random.lognormvariate(5, 1)), 20_000)
            content = f"{number}.{turn}\n{_piece(random, text, length)}"
            said.append({"role": role, "content": content})
    return said


def _row(random: Random, text: str, number: int) -> dict[str, Any]:
    messages = _messages(random, text, number)
    match number % 20:
        case 1:
            messages[-1]["weight"] = 1
        case 2:
            messages[1] |= {"content": "", "tool_calls": [_CALL]}
            result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
            messages += [result, {"role": "assistant", "content": "One."}]
        case 3:
            return {"messages": messages, "id": f"row-{number}", "source": "kjv"}
        case 4 | 5:
            messages.insert(0, {"role": "system", "content": "You know the text by heart."})
    return {"messages": messages}


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"
