"""Do the objectives teach? A small model learns sums: supervised, and from there by rewards and preferences.

    python -m benchmarks.learning [--json] [--short]

A Llama of random weights reads bytes and learns sums and differences of two digits
(`examples/make_rows.py`): first by SFT until it is right now and then; from there by GRPO, 60 steps with
reasoning-gym's own grader, and by DPO on right and wrong answers. Each is a run of the product's trainer.
There are about 240 questions; no held-out pair is one that was trained on, but its question is, with other
wrong answers, and GRPO asks 48, again and again: what is shown is that the objectives teach, not that the
model generalises. `reward_...` are mean rewards of these 48, drawn with other random numbers than in
training, `accuracy_...` the share of held-out pairs of which the right answer gained on the wrong one.
About ten minutes on one core.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.training_run import Curve, last_checkpoint, measured, run_spec, stepped
from castalia.toy_model import make_toy_model
from core.spec.events import RunEvent

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
from make_rows import rows, write  # noqa: E402  the user's own way to rows

GRADER = {
    "type": "reasoning_gym",
    "name": "sums",
    "dataset": "basic_arithmetic",
    "entry": "{{ item.reasoning_gym }}",
}


@dataclass(frozen=True, slots=True)
class Size:
    """Of the model and of each run."""

    hidden: int = 128
    layers: int = 4
    rows: int = 2000
    held_out: int = 100
    questions: int = 48
    pairs: int = 4000
    held_out_pairs: int = 400
    sft_epochs: int = 4
    grpo_steps: int = 60
    dpo_epochs: int = 3


SHORT = Size(
    hidden=32,
    layers=1,
    rows=32,
    held_out=8,
    questions=16,
    pairs=32,
    held_out_pairs=8,
    sft_epochs=1,
    grpo_steps=2,
    dpo_epochs=1,
)
DRAWN_FOR_A_HELD_OUT_PAIR = 4
"""About four in ten of those drawn are new."""


def main() -> int:
    """Learn and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--short", action="store_true", help="a tiny model and a few steps")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="castalia-learning-") as folder:
        report = learnt(SHORT if options.short else Size(), Path(folder))
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<28}{value if isinstance(value, float) else ''}")
    return 0


def learnt(size: Size, folder: Path) -> dict[str, Any]:
    """All three runs, and what they came to."""
    toy = make_toy_model(folder / "toy", hidden=size.hidden, layers=size.layers)
    _write_rows(size, folder)
    sft = _run(folder, "sft", toy, {"kind": "sft"}, 2e-3, epochs=size.sft_epochs)
    taught = last_checkpoint(folder / "runs" / "sft")
    objective = {"kind": "grpo", "grader": GRADER, "group_size": 8, "max_completion_tokens": 8}
    every = {"max_steps": size.grpo_steps, "evaluation": {"every": 10}}
    grpo = _run(folder, "grpo", taught, objective, 3e-4, **every)
    every = {"epochs": size.dpo_epochs, "evaluation": {"every": 125}}
    dpo = _run(folder, "dpo", taught, {"kind": "dpo"}, 1e-3, **every)
    curves = {
        "sft_valid_loss": measured(sft, "full_valid_loss"),
        "grpo_reward": stepped(grpo, "reward_mean"),
        "grpo_valid_reward": measured(grpo, "valid_reward_mean"),
        "dpo_valid_accuracy": measured(dpo, "valid_reward_accuracy"),
    }
    return _ends(curves) | {"curves": curves}


def _write_rows(size: Size, folder: Path) -> None:
    write(folder / "sft.jsonl", rows("sft", size.rows, seed=1))
    write(folder / "sft-held-out.jsonl", rows("sft", size.held_out, seed=2))
    for name in ("grpo", "grpo-held-out"):
        write(folder / f"{name}.jsonl", rows("grpo", size.questions, seed=1))
    pairs = list(rows("dpo", size.pairs, seed=1))
    more = rows("dpo", DRAWN_FOR_A_HELD_OUT_PAIR * size.held_out_pairs, seed=2)
    write(folder / "dpo.jsonl", iter(pairs))
    write(folder / "dpo-held-out.jsonl", islice(_new(more, pairs), size.held_out_pairs))


def _new(
    drawn: Iterable[dict[str, Any]], known: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Those drawn that are not known, each once."""
    seen = {json.dumps(row) for row in known}
    for row in drawn:
        text = json.dumps(row)
        if text not in seen:
            seen.add(text)
            yield row


def _run(
    folder: Path, kind: str, model: Path, objective: dict[str, Any], rate: float, **trainer: Any
) -> list[RunEvent]:
    epochs = trainer.pop("epochs", 50)
    spec = {
        "model": str(model),
        "training_file": str(folder / f"{kind}.jsonl"),
        "validation_file": str(folder / f"{kind}-held-out.jsonl"),
        "hyperparameters": {"n_epochs": epochs, "batch_size": 16},
        "trainer": {
            "objective": objective,
            "context_length": 128,
            "tokens_per_pass": 4096,
            "optimizer": {"kind": "adamw"},
            "learning_rate": rate,
            "checkpoint": {"keep_last": 1},
            **trainer,
        },
    }
    events = run_spec(kind, spec, folder / "runs" / kind)
    sys.stderr.write(f"{kind} done\n")
    return events


def _ends(curves: dict[str, Curve]) -> dict[str, float]:
    def ends(name: str, short: str) -> dict[str, float]:
        return {
            f"{short}_first": round(curves[name][0][1], 4),
            f"{short}_last": round(curves[name][-1][1], 4),
        }

    return (
        ends("sft_valid_loss", "loss_sft")
        | ends("grpo_valid_reward", "reward_grpo")
        | ends("dpo_valid_accuracy", "accuracy_dpo")
    )


if __name__ == "__main__":
    sys.exit(main())
