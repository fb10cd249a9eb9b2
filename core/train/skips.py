"""Steps whose loss or gradient was not finite: they change no weights, are counted, and end the run at last.

One such step is a row that overflowed, and the run is better off without it; many in a row are a run that has
diverged. In a fused step the loss is known before the backward pass, so one that is not finite starts none;
where the loss is finite and a layer's gradient is not, that layer is not stepped, but layers above it already
are. The counts lie in every checkpoint.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.spec.errors import ExitCode, JobError, RunFailure
from core.train.journal import Journal

STEPPED_BY = ("train_loss", "grad_norm")
"""The metrics that must be finite for a step to count."""

SHOWN_LINES = 40


@dataclass(slots=True)
class Skips:
    """How many steps were skipped, and the rows' lines of those that were so one after the other.

    ``most``: how many in a row are borne.
    """

    most: int
    total: int = 0
    in_a_row: int = 0
    lines: list[int] = field(default_factory=list)

    def see(self, step: int, broken: Iterable[str], lines: Iterable[int]) -> bool:
        """Take a step in; tell whether it was skipped. Raises RunFailure where too many were in a row.

        ``broken``: the metrics of it that were not finite.
        """
        names = [name for name in STEPPED_BY if name in set(broken)]
        if not names:
            self.in_a_row, self.lines = 0, []
            return False
        self.total += 1
        self.in_a_row += 1
        self.lines = sorted({*self.lines, *lines})
        if self.in_a_row > self.most:
            raise self._diverged(step, names)
        return True

    def state(self) -> dict[str, Any]:
        """What a resumed run goes on from."""
        return {"total": self.total, "in_a_row": self.in_a_row, "lines": self.lines}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave."""
        self.total, self.in_a_row = state["total"], state["in_a_row"]
        self.lines = list(state["lines"])

    def _diverged(self, step: int, names: list[str]) -> RunFailure:
        many = f", the last of {self.in_a_row} in a row" if self.in_a_row > 1 else ""
        where = f"at step {step}{many} (lines {shown_lines(self.lines)})"
        return not_finite(names, where, last_step=step - 1)


def finite_part(metrics: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """The metrics that are numbers, and the names of those that are not: JSON has no word for them."""
    finite = {name: value for name, value in metrics.items() if value - value == 0.0}
    return finite, [name for name in metrics if name not in finite]


def tell_skipped(
    journal: Journal, way: str, step: int, broken: Sequence[str], lines: Sequence[int]
) -> None:
    """Tell of a skipped step; ``way``: fused or two_phase."""
    halfway = way == "fused" and "train_loss" not in broken
    done = "part of the weights was stepped already" if halfway else "it changed no weights"
    what, where = " and ".join(broken), shown_lines(lines)
    journal.note(
        "step.skipped",
        f"step {step} was skipped, {done}: {what} not finite (lines {where})",
        step=step,
        not_finite=", ".join(broken),
        lines=where,
    )


def tell_left_out(journal: Journal, step: int, broken: Sequence[str]) -> None:
    """Tell of the metrics of a step that counts which are no numbers, if there are some."""
    if broken:
        names = ", ".join(broken)
        message = f"metrics of step {step} are left out, for they are not finite: {names}"
        journal.note("metrics.not_finite", message, step=step, names=names)


def not_finite(names: Iterable[str], where: str, last_step: int) -> RunFailure:
    """The run cannot go on, for these figures are no numbers."""
    return RunFailure(
        JobError(
            code="loss_not_finite",
            message=f"{' and '.join(names)} not finite {where}",
            param="trainer.learning_rate",
            hint="lower trainer.learning_rate, or look at these rows; the last checkpoint is kept",
            last_step=last_step,
        ),
        ExitCode.diverged,
    )


def shown_lines(lines: Iterable[int]) -> str:
    """``3, 5, 9``, and how many more there are."""
    every = list(lines)
    more = len(every) - SHOWN_LINES
    shown = ", ".join(map(str, every[:SHOWN_LINES]))
    return f"{shown} and {more} more" if more > 0 else shown
