"""A figure of what `benchmarks.examples` found.

    python -m benchmarks.examples_report benchmarks/results/DATE-examples.json

writes DATE-examples.png beside it.
"""

import sys
from typing import Any

from benchmarks.examples import BY_EPOCH, CURVES
from benchmarks.figures import Line, Panel, draw_result

PANELS = {
    "pretrain": ("pretrain: a book", "loss, nats a token"),
    "sft": ("sft: the demo's definitions", "loss, nats a trained token"),
    "sums": ("sums, by sft", "loss, nats a trained token"),
    "dpo": ("dpo, from sums: right and wrong", "share of pairs told apart"),
    "grpo": ("grpo, from sums: rewards", "mean reward"),
}


def main() -> int:
    """Write it."""
    return draw_result(__doc__ or "", panels)


def panels(curves: dict[str, Any]) -> list[Panel]:
    """One panel a job: its steps, and its validation file."""
    return [
        Panel(
            title,
            measure,
            [
                Line("of the step's rows", curves[kind][CURVES[kind][0]], 7),
                Line("of held-out rows", curves[kind][CURVES[kind][1]], 0),
                *(
                    Line("mean of an epoch", curves[kind][f"{metric}_of_epochs"], 3)
                    for metric in BY_EPOCH.get(kind, ())
                ),
            ],
        )
        for kind, (title, measure) in PANELS.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
