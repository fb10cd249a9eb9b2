"""A figure of what `benchmarks.learning` found.

    python -m benchmarks.learning_report benchmarks/results/DATE-learning.json

writes DATE-learning.png beside it.
"""

import sys
from typing import Any

from benchmarks.figures import Line, Panel, draw_result


def main() -> int:
    """Write it."""
    return draw_result(__doc__ or "", panels)


def panels(curves: dict[str, Any]) -> list[Panel]:
    """One panel an objective."""
    return [
        Panel("SFT", "validation loss, nats a token", [Line(None, curves["sft_valid_loss"], 0)]),
        Panel(
            "GRPO, from the SFT model",
            "mean reward",
            [
                Line("of the step's answers", curves["grpo_reward"], 7),
                Line("all questions, drawn anew", curves["grpo_valid_reward"], 1),
            ],
        ),
        Panel(
            "DPO, from the SFT model",
            "accuracy on held-out pairs",
            [Line(None, curves["dpo_valid_accuracy"], 2)],
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
