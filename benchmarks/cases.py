"""What is measured, and how a case is run: one training step in a process of its own.

A peak of memory belongs to a process, and a heap that one case has stretched would flatter the
next. So each case gets a fresh interpreter, `python -m benchmarks.steps CASE`, and cases of the same
round follow one another, so that whatever the machine does meets all peers alike.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

PLAIN = "plain"
CHECKPOINTING = "checkpointing"
CHUNKED_CE = "checkpointing_chunked_ce"
PEERS = (PLAIN, CHECKPOINTING, CHUNKED_CE)
REFERENCE = "reference_streambp"
"""The authors' code, in the environment that `make peers` makes."""

OURS = "ours"
OURS_LEAST = f"{OURS}/hidden/device"
"""Ours by its keep and store policies; this one keeps the layers' inputs on the device."""


PEERS_VENV = Path(__file__).parent / "peers" / ".venv"


class CaseFailed(RuntimeError):
    """A case that did not come to its end; the message is the last of what it said."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A Qwen3-type model."""

    hidden: int = 512
    layers: int = 8
    heads: int = 8
    key_heads: int = 2
    head_width: int = 64
    intermediate: int = 1344
    vocabulary: int = 32_000


@dataclass(frozen=True, slots=True)
class Case:
    """One row of `tokens` tokens through one step. `dtype` is torch's name; chunks are of ours.

    glibc serves blocks that are ever larger, up to 32 MiB, from a heap that it hardly gives back: then
    a peak says as much about the order of allocations as about the tensors. With a `steady_heap`
    every block of a MiB is mapped by itself and returned when it is freed, at some cost in time.
    Of several `steps` the first tells the memory and the fastest the time.
    """

    mode: str
    tokens: int
    chunk_tokens: int = 512
    head_chunk_tokens: int = 128
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    steady_heap: bool = False
    steps: int = 1
    shape: Shape = Shape()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a case from the JSON of `asdict`."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "shape": Shape(**fields["shape"])})


@dataclass(frozen=True, slots=True)
class Measured:
    """Peak memory in bytes above weights, gradients and what stood there before; seconds; nats."""

    mode: str
    tokens: int
    memory_bytes: int
    cpu_s: float
    wall_s: float
    loss: float


def reference_installed() -> bool:
    """Say whether `make peers` has come to its end."""
    return (PEERS_VENV / ".installed").exists()


def run_case(case: Case, limit_s: float = 1800.0) -> Measured:
    """Run one case to its end. Raises CaseFailed."""
    program = [sys.executable, "-m", "benchmarks.steps"]
    if case.mode == REFERENCE:
        program = [str(PEERS_VENV / "bin" / "python"), "-m", "benchmarks.peers.reference_streambp"]
    environment = {"OMP_NUM_THREADS": str(case.threads)}
    if case.steady_heap:
        environment["MALLOC_MMAP_THRESHOLD_"] = str(2**20)
    command = [*program, json.dumps(asdict(case))]
    return Measured(**last_object(f"{case.mode} at {case.tokens}", command, environment, limit_s))


def last_object(
    name: str, command: list[str], environment: dict[str, str], limit_s: float = 1800.0
) -> dict[str, Any]:
    """The JSON object on the last line that a case in a process of its own says. Raises CaseFailed."""
    said = output_of(name, command, environment, limit_s)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def output_of(name: str, command: list[str], environment: dict[str, str], limit_s: float) -> str:
    """What a process of ours printed. Raises CaseFailed with its last words, or for the time it took."""
    try:
        done = subprocess.run(  # noqa: S603  our own modules
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=os.environ | environment,
            cwd=Path(__file__).parents[1],
        )
    except subprocess.TimeoutExpired as expired:
        raise CaseFailed(f"{name}: not done in {limit_s} s") from expired
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"signal {-done.returncode}"]
        raise CaseFailed(f"{name}: {said[0]}")
    return done.stdout


def run_all(cases: Iterable[Case]) -> Iterator[Measured]:
    """Run cases one after the other, telling on stderr what came out."""
    for case in cases:
        measured = run_case(case)
        sys.stderr.write(
            f"{measured.mode:<32}{measured.tokens:>8} tokens"
            f"{measured.memory_bytes / 2**20:>10.0f} MiB{measured.cpu_s:>9.1f} CPU s\n"
        )
        yield measured
