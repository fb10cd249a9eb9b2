"""A table and a figure of what `benchmarks.quality` found.

    python -m benchmarks.quality_report benchmarks/results/DATE-quality.json

writes DATE-quality.md and DATE-quality.png beside it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.figures import Line, Panel, draw
from benchmarks.quality import SEEDS, Run, best_rate

HEAD = """# Quality by optimizer

{about}; written by `python -m benchmarks.quality_report`.

Pre-training: a Llama of {size}. Best validation loss (nats a token) by learning rate,
then the mean over {seeds} seeds at the best rate.

| optimizer | learning rates tried: loss | best rate | mean of seeds | to AdamW |
|---|---|---|---|---|"""

TUNED_HEAD = """
Fine-tuning: SmolLM2-135M on the demo's rows, every parameter, one epoch, one run each; validation loss
(nats a trained token).

| optimizer | learning rate | first measured | last |
|---|---|---|---|"""

LABELS = {
    "adamw": "AdamW",
    "apollo": "APOLLO",
    "mini": "APOLLO-Mini",
    "int8_mini": "APOLLO-Mini, int8 weights",
    "scale": "SCALE",
}


def main() -> int:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    path = parser.parse_args().result
    kept = json.loads(path.read_text())
    path.with_suffix(".md").write_text(table(kept))
    draw(panels(kept["found"]), path.with_suffix(".png"))
    print(path.with_suffix(".md"))
    print(path.with_suffix(".png"))
    return 0


def table(kept: dict[str, Any]) -> str:
    """A page of the figures; nats a token."""
    found = kept["found"]
    runs, tuned = _runs(found["pretraining"]), _runs(found["finetuning"])
    about = f"`{kept['command']}` at {kept['commit'][:7]}, {kept['date'][:10]}"
    size = f"{found['parameters'] / 1e6:.1f} million parameters on {found['tokens'] / 1e6:.2f} million tokens"
    lines = [HEAD.format(about=about, size=size, seeds=len(SEEDS))]
    for recipe in dict.fromkeys(run.recipe for run in runs):
        tried = "; ".join(
            f"{run.rate:g}: {run.best:.3f}"
            for run in runs
            if run.recipe == recipe and run.seed == SEEDS[0]
        )
        loss = found[f"validation_loss_{recipe}"]
        ratio = loss / found["validation_loss_adamw"] - 1
        best = found[f"best_rate_{recipe}"]
        lines.append(f"| {LABELS[recipe]} | {tried} | {best:g} | {loss:.4f} | {ratio:+.2%} |")
    if tuned:
        lines.append(TUNED_HEAD)
        for run in tuned:
            first, last = run.curve[0][1], run.curve[-1][1]
            lines.append(f"| {LABELS[run.recipe]} | {run.rate:g} | {first:.4f} | {last:.4f} |")
    return "\n".join(lines) + "\n"


def panels(found: dict[str, Any]) -> list[Panel]:
    """Curves: each recipe's seeds at its best rate, and the fine-tuning runs."""
    runs, tuned = _runs(found["pretraining"]), _runs(found["finetuning"])
    left, right = [], []
    for colour, recipe in enumerate(LABELS):
        best = best_rate(runs, recipe)
        for run in runs:
            if (run.recipe, run.rate) == (recipe, best):
                label = f"{LABELS[recipe]}, {best:g}" if run.seed == SEEDS[0] else None
                left.append(Line(label, run.curve, colour))
        right += [Line(f"{one.rate:g}", one.curve, colour) for one in tuned if one.recipe == recipe]
    top = max(run.curve[1][1] for run in runs)  # the first point is that of random weights
    measure = "validation loss, nats a token"
    return [
        Panel("Pre-training, three seeds", measure, left, top),
        Panel("Fine-tuning SmolLM2-135M", measure, right),
    ]


def _runs(found: list[dict[str, Any]]) -> list[Run]:
    return [Run(**fields) for fields in found]


if __name__ == "__main__":
    sys.exit(main())
