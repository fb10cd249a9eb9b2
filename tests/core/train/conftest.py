"""Whole runs of the trainer in this process, on the toy model; and what a run leaves behind."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load
from torch import Tensor

from core.spec.events import RunEvent, run_event
from core.spec.job import JobSpec
from core.spec.run import EVENTS_FILE
from core.train.cache import CachePlace
from core.train.checkpoint import latest_checkpoint, load_state
from core.train.journal import Journal
from core.train.run import run_job
from core.train.stop import StopRequest

ROWS = 7
GRPO = {
    "kind": "grpo",
    "grader": {
        "type": "string_check",
        "name": "e",
        "operation": "like",
        "input": "{{sample.output_text}}",
        "reference": "e",
    },
    "group_size": 2,
    "max_completion_tokens": 8,
}
TIMED = ("step_seconds", "tokens_per_second", "peak_memory_bytes")


@dataclass(frozen=True)
class Run:
    """A run directory after the trainer has ended."""

    directory: Path

    @property
    def events(self) -> list[RunEvent]:
        lines = (self.directory / EVENTS_FILE).read_bytes().splitlines()
        return [run_event.validate_json(line) for line in lines]

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

    @property
    def steps(self) -> dict[int, dict[str, float]]:
        """Metrics by step, without those that measure time; a step that was walked again counts once."""
        return {
            event.step: {n: v for n, v in event.metrics.items() if n not in TIMED}
            for event in self.of("step")
        }

    @property
    def checkpoint(self) -> Path:
        found = latest_checkpoint(self.directory)
        assert found is not None
        return found

    @property
    def weights(self) -> dict[str, Tensor]:
        # Read, not mapped: a mapped tensor would change with its file.
        return load((self.checkpoint / "model.safetensors").read_bytes())

    @property
    def state(self) -> dict[str, Any]:
        return load_state(self.checkpoint)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """A StopRequest takes the signals of this process; give them back."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def training_path(tmp_path, chat_lines) -> Path:
    path: Path = tmp_path / "train.jsonl"
    path.write_bytes(chat_lines(ROWS))
    return path


@pytest.fixture
def objective_of() -> Callable[[str], dict[str, Any]]:
    """The words for an objective of this kind that is quick to train."""
    return lambda kind: dict(GRPO) if kind == "grpo" else {"kind": kind}


@pytest.fixture
def row_of() -> Callable[..., dict[str, Any]]:
    """A row for this objective. ``letter`` begins the question; ``times``: how long answers are."""

    def row(kind: str, number: int, times: int, letter: str = "") -> dict[str, Any]:
        if kind == "pretrain":
            return {"text": f"{letter}{number} yes" * (1 + times)}
        question = {"role": "user", "content": f"{letter}{number}?"}
        answers = [{"role": "assistant", "content": x * (1 + times)} for x in ("yes", "no")]
        if kind == "dpo":
            return {
                "input": {"messages": [question]},
                "preferred_output": answers[:1],
                "non_preferred_output": answers[1:],
            }
        return {"messages": [question] if kind == "grpo" else [question, answers[0]]}

    return row


@pytest.fixture
def make_spec(toy_model, training_path) -> Callable[..., JobSpec]:
    """A spec of two epochs of four steps, the last of each with one row; ``changes`` win.

    Without a canary, which would only make every run as long as two; it has tests of its own.
    """

    def make(**changes: Any) -> JobSpec:
        numbers = {"n_epochs": 2, "batch_size": 2, **changes.pop("hyperparameters", {})}
        trainer = {"context_length": 64, "stream": {"chunk_tokens": 16}, "learning_rate": 1e-3}
        trainer |= {"canary": False}
        files = {"model": str(toy_model), "training_file": str(training_path)}
        trainer |= changes.pop("trainer", {})
        return JobSpec.parse({**files, "hyperparameters": numbers, "trainer": trainer, **changes})

    return make


@pytest.fixture
def train(tmp_path) -> Callable[..., Run]:
    """Runs a spec to its end, or to a SIGTERM that comes while the event number ``stop_at`` is written."""

    def run(
        spec: JobSpec,
        name: str = "run",
        stop_at: int | None = None,
        cache: CachePlace | None = None,
    ) -> Run:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        written = 0

        def clock() -> float:
            nonlocal written
            written += 1
            if written == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            return time.time()

        journal = Journal(directory, clock)
        try:
            stop = StopRequest()
            done = run_job(
                spec,
                beside=tmp_path,
                directory=directory,
                journal=journal,
                stop=stop,
                cache=cache,
            )
        finally:
            journal.close()
        assert done == (stop_at is None)
        return Run(directory)

    return run


@pytest.fixture
def bit_equal() -> Callable[[Any, Any], bool]:
    """Whether two trees of numbers and tensors hold the same bits."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, Tensor):
            return torch.equal(one, other)
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(same, one, other))
        return bool(one == other)

    return same
