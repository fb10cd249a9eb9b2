"""How well models learn by each optimizer: pre-training of a small one, fine-tuning of a real one.

    python -m benchmarks.quality [--json] [--processes 2] [--runs FILE] [--short]

Pre-training: `benchmarks.pretraining` at each learning rate of an optimizer's grid, then the best rate with
two more seeds; about two hours on two cores. `loss_ratio_...` compares means over the three seeds of the
best validation loss. Fine-tuning: `benchmarks.finetuning`, one run each. Finished runs are appended to
FILE, and found there when the command is given again. `python -m benchmarks.record quality
benchmarks.quality` keeps the result; `python -m benchmarks.quality_report` makes a table and a figure of it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.cases import last_object
from benchmarks.finetuning import MODEL, FinetuningCase, finetuned
from benchmarks.pretraining import PretrainingCase, trained
from castalia.demo_model import prepare_smollm2
from core.spec.trainer import Precision

SEEDS = (0, 1, 2)
LIMIT_S = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """An optimizer and its learning rates: a grid for pre-training, one for fine-tuning."""

    optimizer: dict[str, Any]
    rates: tuple[float, ...]
    finetuning_rate: float
    precision: Precision = "float32"


MINI = Recipe({"kind": "apollo_mini", "scale": 32.0}, (0.003, 0.006, 0.01), 1e-4)
RECIPES = {
    "adamw": Recipe({"kind": "adamw", "weight_decay": 0.0}, (0.001, 0.002, 0.004), 2e-5),
    "apollo": Recipe({"kind": "apollo", "rank": 48}, (0.005, 0.01, 0.02), 1e-4),
    "mini": MINI,
    "int8_mini": replace(MINI, precision="int8"),
    "scale": Recipe({"kind": "scale"}, (0.0015, 0.003, 0.006), 2e-5),
}
"""APOLLO's rank is a quarter of the pre-trained model's width, as in arXiv 2412.05270; APOLLO-Mini's scale is
32, for at this width 128 was worse at every rate (docs/log.md). Fine-tuning takes the same."""

SHORT = {"steps": 6, "hidden": 64, "layers": 1, "validation_rows": 8}
Curve = list[tuple[int, float]]
Job = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: which recipe, at which rate, and its validation losses by step."""

    recipe: str
    rate: float
    seed: int
    curve: Curve
    parameters: int = 0
    tokens: int = 0
    cpu_s: int = 0

    @property
    def best(self) -> float:
        """Its best validation loss."""
        return min(loss for _step, loss in self.curve)


class Runner:
    """Runs jobs side by side, each in a process of its own, and remembers what they found."""

    def __init__(self, processes: int, remembered: Path | None) -> None:
        self._pool = ThreadPoolExecutor(processes)
        self._remembered = remembered
        self._found: dict[str, dict[str, Any]] = {}
        if remembered is not None and remembered.exists():
            for line in remembered.read_text().splitlines():
                self._found.update(json.loads(line))

    def all(self, jobs: dict[str, Job]) -> dict[str, dict[str, Any]]:
        """What each job found. Raises CaseFailed, after the others have come to their end."""
        pending = {
            name: self._pool.submit(self._run, name, job)
            for name, job in jobs.items()
            if name not in self._found
        }
        wait(pending.values())
        for name, future in pending.items():
            self._found[name] = future.result()
        return {name: self._found[name] for name in jobs}

    def _run(self, name: str, job: Job) -> dict[str, Any]:
        found = job()
        sys.stderr.write(f"{name:<44}{min(loss for _step, loss in found['curve']):8.4f}\n")
        if self._remembered is not None:
            with self._remembered.open("a") as file:
                file.write(json.dumps({name: found}) + "\n")
        return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=Path, help="finished runs, to go on from")
    parser.add_argument("--short", action="store_true", help="a tiny model, six steps, one rate")
    options = parser.parse_args()
    runner = Runner(1 if options.short else options.processes, options.runs)
    recipes = RECIPES
    if options.short:
        recipes = {name: replace(one, rates=one.rates[:1]) for name, one in RECIPES.items()}
    runs = pretrained(runner, recipes, SHORT if options.short else {})
    report = report_of(runs) | {
        "pretraining": [asdict(run) for run in runs],
        "finetuning": [] if options.short else [asdict(run) for run in finetuning(runner)],
    }
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            if isinstance(value, int | float):
                print(f"{name:<44}{value}")
    return 0


def pretrained(runner: Runner, recipes: dict[str, Recipe], model: dict[str, int]) -> list[Run]:
    """The grid with the first seed, then each recipe's best rate with the others."""
    grid = [(name, rate, SEEDS[0]) for name, one in recipes.items() for rate in one.rates]
    runs = _pretrained(runner, grid, model)
    more = [(name, best_rate(runs, name), seed) for name in recipes for seed in SEEDS[1:]]
    return runs + _pretrained(runner, more, model)


def _pretrained(
    runner: Runner, wanted: Sequence[tuple[str, float, int]], model: dict[str, int]
) -> list[Run]:
    def job(name: str, rate: float, seed: int) -> Job:
        recipe = RECIPES[name]
        case = PretrainingCase(recipe.optimizer, recipe.precision, rate, seed, **model)
        if model:
            return lambda: trained(case)
        command = [sys.executable, "-m", "benchmarks.pretraining", json.dumps(asdict(case))]
        return lambda: last_object(name, command, {"OMP_NUM_THREADS": "1"}, LIMIT_S)

    found = runner.all({f"pretraining {one}": job(*one) for one in wanted})
    return [Run(*one, **found[f"pretraining {one}"]) for one in wanted]


def finetuning(runner: Runner) -> list[Run]:
    """One run of each recipe."""
    prepare_smollm2(MODEL)  # before there are threads: transformers loads no two models at once

    def job(name: str, recipe: Recipe) -> Job:
        case = FinetuningCase(recipe.optimizer, recipe.precision, recipe.finetuning_rate)
        return lambda: finetuned(name, case)

    found = runner.all({f"finetuning {name}": job(name, one) for name, one in RECIPES.items()})
    return [
        Run(name, one.finetuning_rate, 0, **found[f"finetuning {name}"])
        for name, one in RECIPES.items()
    ]


def best_rate(runs: Sequence[Run], recipe: str) -> float:
    """The rate whose run with the first seed came to the lowest loss."""
    tried = [run for run in runs if run.recipe == recipe and run.seed == SEEDS[0]]
    return min(tried, key=lambda run: run.best).rate


def report_of(runs: Sequence[Run]) -> dict[str, Any]:
    """Losses and their ratios, over the seeds at each recipe's best rate."""
    losses, rates = {}, {}
    for recipe in dict.fromkeys(run.recipe for run in runs):
        rates[recipe] = best_rate(runs, recipe)
        losses[recipe] = mean(
            run.best for run in runs if (run.recipe, run.rate) == (recipe, rates[recipe])
        )
    pairs = [(recipe, "adamw") for recipe in losses if recipe != "adamw"] + [("int8_mini", "mini")]
    return {
        "parameters": runs[0].parameters,
        "tokens": runs[0].tokens,
        **{f"validation_loss_{recipe}": round(loss, 4) for recipe, loss in losses.items()},
        **{f"best_rate_{recipe}": rate for recipe, rate in rates.items()},
        **{
            f"loss_ratio_{recipe}_vs_{peer}": round(losses[recipe] / losses[peer], 4)
            for recipe, peer in pairs
        },
    }


if __name__ == "__main__":
    sys.exit(main())
