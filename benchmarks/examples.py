"""Do the example jobs show something? Each of `examples/jobs` on SmolLM2-135M, through `castalia train`.

    python -m benchmarks.examples [--json] [--model FOLDER] [--steps STEPS] [--runs FOLDER] [JOB ...]

The jobs as they stand, with rows as examples/jobs/README.md makes them: validation rows hold questions and
chapters that training rows do not. A model and a number of steps that are given replace a job's own; the
jobs of dpo and grpo go on from what `sums` has learnt. With `--runs` the runs stay in a folder, and those
that are finished there are read, not run again. A curve is of (step, value), from the events of a run.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.cases import output_of
from benchmarks.training_run import (
    Curve,
    by_epoch,
    events_of,
    last_checkpoint,
    measured,
    stepped,
)
from castalia.demo_model import prepare_smollm2
from core.spec.events import Finished
from core.spec.run import EVENTS_FILE

ROOT = Path(__file__).parents[1]
JOBS = ROOT / "examples" / "jobs"
MAKE_ROWS = ROOT / "examples" / "make_rows.py"
FILES, PARTS = ("training_file", "validation_file"), ("train", "held-out")
MODEL = ROOT / "castalia-data" / "demo" / "models" / "SmolLM2-135M-Instruct"
ROWS = {"pretrain": (60, 2), "sums": (96, 24), "dpo": (192, 40), "grpo": (40, 24)}
"""Made for training, and held out; the job of sft has its own, the demo's."""

LIMIT_S = 4 * 3600.0

CURVES = {
    "pretrain": ("train_loss", "full_valid_loss"),
    "sft": ("train_loss", "full_valid_loss"),
    "sums": ("train_loss", "full_valid_loss"),
    "dpo": ("reward_accuracy", "valid_reward_accuracy", "reward_margin", "valid_reward_margin"),
    "grpo": ("reward_mean", "valid_reward_mean", "completion_tokens", "truncated_share"),
}
"""What is kept of each job's run; names with `valid` are of the validation file."""

BY_EPOCH = {"grpo": ("reward_mean",)}
"""Each epoch asks the same questions, so that the means of epochs compare what the steps' do not."""

SHOWN = {
    "pretrain": ("full_valid_loss",),
    "sft": ("full_valid_loss",),
    "sums": ("full_valid_loss",),
    "dpo": ("valid_reward_accuracy",),
    "grpo": ("reward_mean_of_epochs", "valid_reward_mean"),
}


def main() -> int:
    """Run all, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", type=Path, help="instead of SmolLM2-135M-Instruct")
    parser.add_argument("--steps", type=int, help="instead of each job's own number")
    parser.add_argument("--runs", type=Path, help="a folder to keep the runs in, and to go on from")
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="these alone: " + ", ".join(CURVES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="castalia-examples-") as scratch:
        model = options.model or prepare_smollm2(MODEL)
        folder = (options.runs or Path(scratch)).resolve()
        report = shown(model.resolve(), folder, options.steps, options.jobs or CURVES)
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<36}{value if isinstance(value, float) else ''}")
    return 0


def shown(
    model: Path, folder: Path, steps: int | None = None, kinds: Iterable[str] = tuple(CURVES)
) -> dict[str, Any]:
    """Jobs on `model`, in `folder`: how what each is to change began and ended, and its curves."""
    curves = {kind: _curves(kind, model, folder, steps) for kind in kinds}
    ends = {
        f"{metric}_{kind}_{end}": round(curves[kind][metric][at][1], 4)
        for kind, metrics in SHOWN.items()
        for metric in metrics
        if kind in curves
        for end, at in (("first", 0), ("last", -1))
    }
    return ends | {"curves": curves}


def _curves(kind: str, model: Path, folder: Path, steps: int | None) -> dict[str, Curve]:
    out = folder / "runs" / kind
    if not _finished(out):
        path = folder / f"{kind}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_job(kind, model, folder, steps)))
        command = [sys.executable, "-m", "castalia", "train", str(path), "--out", str(out)]
        output_of(kind, command, {"OMP_NUM_THREADS": "1"}, LIMIT_S)
        sys.stderr.write(f"{kind} done\n")
    events = events_of(out)
    curves = {
        name: measured(events, name) if "valid_" in name else stepped(events, name)
        for name in CURVES[kind]
    }
    return curves | {f"{name}_of_epochs": by_epoch(events, name) for name in BY_EPOCH.get(kind, ())}


def _finished(out: Path) -> bool:
    return (out / EVENTS_FILE).exists() and isinstance(events_of(out)[-1], Finished)


def _job(kind: str, model: Path, folder: Path, steps: int | None) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((JOBS / f"{kind}.json").read_text())
    if kind in ROWS:
        for field, part, count in zip(FILES, PARTS, ROWS[kind], strict=True):
            job[field] = str(folder / job[field])
            rows = "sft" if kind == "sums" else kind
            made = [str(MAKE_ROWS), rows, job[field], "--rows", str(count), "--part", part]
            output_of("rows", [sys.executable, *made], {}, LIMIT_S)
    if steps:
        job["trainer"]["max_steps"] = steps
    goes_on = str(job["model"]).startswith("runs/sums/")
    return job | {"model": str(last_checkpoint(folder / "runs" / "sums") if goes_on else model)}


if __name__ == "__main__":
    sys.exit(main())
