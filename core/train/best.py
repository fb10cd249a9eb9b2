"""Which measurement of the validation file was the best, and whether it is worth going on.

Of a loss or a divergence the lower is the better, of everything else (a reward, an accuracy, a margin) the
higher.
"""

from dataclasses import dataclass
from typing import Any

from core.spec.errors import spec_failure
from core.spec.job import JobSpec

LOWER_IS_BETTER = ("loss", "kl")


@dataclass(slots=True)
class Best:
    """The best value of ``metric`` so far, the step at which it was measured, and how many came since."""

    metric: str
    param: str
    least_gain: float = 0.0
    value: float | None = None
    step: int = 0
    since: int = 0

    def see(self, step: int, metrics: dict[str, float]) -> bool:
        """Take a measurement in; tell whether it is the best. Raises RunFailure where it lacks the metric."""
        if self.metric not in metrics:
            raise spec_failure(
                "unknown_metric",
                f"'{self.metric}' is not measured; measured are {', '.join(sorted(metrics))}",
                param=self.param,
            )
        value = metrics[self.metric]
        if self._is_better(value):
            self.value, self.step, self.since = value, step, 0
            return True
        self.since += 1
        return False

    def state(self) -> dict[str, Any]:
        """What a resumed run goes on from."""
        return {"value": self.value, "step": self.step, "since": self.since}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what `state` gave."""
        self.value, self.step, self.since = state["value"], state["step"], state["since"]

    def _is_better(self, value: float) -> bool:
        if self.value is None:
            return True
        gain = value - self.value
        if any(word in self.metric for word in LOWER_IS_BETTER):
            gain = -gain
        return gain > self.least_gain


def watched(spec: JobSpec) -> tuple[Best | None, Best | None]:
    """What ``checkpoint.keep_best`` and ``early_stopping`` watch, where they are given."""
    keep, stopping = spec.trainer.checkpoint.keep_best, spec.trainer.early_stopping
    return (
        None if keep is None else Best(keep, "trainer.checkpoint.keep_best"),
        None
        if stopping is None
        else Best(stopping.metric, "trainer.early_stopping.metric", stopping.least_gain),
    )
