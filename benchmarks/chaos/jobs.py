"""Small jobs of every objective: their rows, what is asked for, and what their user wishes on the way.

A job's rows and seed follow from its kind alone, so one undisturbed run a kind is the reference for all.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

STEPS = 16
ROWS, BATCH = 20, 4
WORDS = ("one", "two", "three", "four", "five")
GRADER = {
    "type": "string_check",
    "name": "has the letter",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.letter }}",
    "operation": "ilike",
}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "pretrain": {"kind": "pretrain"},
    "sft": {"kind": "sft"},
    "dpo": {"kind": "dpo"},
    "grpo": {
        "kind": "grpo",
        "grader": GRADER,
        "group_size": 4,
        "max_completion_tokens": 8,
        "updates_per_batch": 2,
    },
}
VALIDATED = ("sft", "dpo")
PATIENT_SHARE = 0.8

Wish = Literal["finish", "cancel", "pause"]
WISHES: list[Wish] = ["finish", "finish", "finish", "finish", "cancel", "pause", "pause"]


@dataclass(slots=True)
class Job:
    """A job of one round. `name` is its tag, by which it is found when an answer was lost.

    `wish` is told to the service once it was seen at `at_step`; `wanted` is where it then has to end. Who is
    not `patient` resumes a job before it is paused.
    """

    name: str
    kind: str
    wish: Wish
    at_step: int
    patient: bool = True
    id: str = ""
    wanted: str = "succeeded"
    told: bool = False


def draw_jobs(number: int, count: int, rng: random.Random, *, pausing: bool) -> list[Job]:
    """The jobs of round `number`."""
    wishes = WISHES if pausing else [wish for wish in WISHES if wish != "pause"]
    kinds = rng.sample(list(OBJECTIVES), k=min(count, len(OBJECTIVES)))
    kinds += rng.choices(list(OBJECTIVES), k=count - len(kinds))
    return [
        Job(
            f"round-{number}-{index}",
            kind,
            rng.choice(wishes),
            rng.randrange(STEPS),
            patient=rng.random() < PATIENT_SHARE,
        )
        for index, kind in enumerate(kinds)
    ]


def request(
    kind: str, training_file: str, validation_file: str | None, model: str
) -> dict[str, Any]:
    """The same words for the API and, as a JobSpec, for the command line."""
    return {
        "model": model,
        "training_file": training_file,
        **({"validation_file": validation_file} if validation_file else {}),
        "seed": 7,
        "hyperparameters": {"n_epochs": 10, "batch_size": BATCH},
        "trainer": {
            "objective": OBJECTIVES[kind],
            "context_length": 128,
            "tokens_per_pass": 256,
            "learning_rate": 3e-3,
            "optimizer": {"kind": "apollo_mini", "update_proj_gap": 3},
            "stream": {"chunk_tokens": 64},
            "checkpoint": {"every": 2, "keep_last": 2},
            "evaluation": {"every": 3},
            "max_steps": STEPS,
        },
    }


def write_rows(folder: Path, count: int = ROWS) -> None:
    """A training file a kind, and a validation file where there is one: KIND.jsonl, KIND-valid.jsonl."""
    for seed, kind in enumerate(OBJECTIVES):
        _write(folder / f"{kind}.jsonl", kind, count, seed)
        if kind in VALIDATED:
            _write(folder / f"{kind}-valid.jsonl", kind, 4, seed + 100)


def files_of(kind: str) -> tuple[str, str | None]:
    """The names of a kind's files."""
    return f"{kind}.jsonl", f"{kind}-valid.jsonl" if kind in VALIDATED else None


def _write(path: Path, kind: str, count: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - rows are no secrets
    rows = [ROW[kind](rng) for _ in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(count // 2, count)))


def _said(role: str, content: str) -> list[dict[str, str]]:
    return [{"role": role, "content": content}]


def _conversation(rng: random.Random) -> dict[str, Any]:
    return {"messages": _said("user", _words(rng, 6)) + _said("assistant", _words(rng, 8))}


def _pair(rng: random.Random) -> dict[str, Any]:
    return {
        "input": {"messages": _said("user", _words(rng, 6))},
        "preferred_output": _said("assistant", _words(rng, 4)),
        "non_preferred_output": _said("assistant", _words(rng, 4)),
    }


def _question(rng: random.Random) -> dict[str, Any]:
    return {"messages": _said("user", _words(rng, 4)), "letter": "e"}


ROW: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "pretrain": lambda rng: {"text": _words(rng, 40)},
    "sft": _conversation,
    "dpo": _pair,
    "grpo": _question,
}
