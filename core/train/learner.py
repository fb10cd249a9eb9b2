"""A model that learns: one optimizer step of its lesson.

Everything random in step k is drawn from a generator seeded by (seed, k). So the random state is a function
of the step's number, and a resumed run needs no more than that number to be bit-equal.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import torch

from core.optim import FusedStep, NamedOptimizer, gradient_norm
from core.ranks import let_go
from core.spec.job import JobSpec
from core.train.lessons import Learnt, Lesson


class Learner:
    """A lesson's model, its optimizer and the spec's way of using them."""

    def __init__(self, spec: JobSpec, lesson: Lesson, optimizer: torch.optim.Optimizer) -> None:
        self.spec = spec
        self.lesson = lesson
        self.model = lesson.model
        self.optimizer = optimizer
        self._fused: FusedStep | None = None
        if spec.trainer.step == "fused":
            assert isinstance(optimizer, NamedOptimizer), "a resolved spec has seen to it"
            self._fused = FusedStep(optimizer)

    def step(self, rows: Sequence[int], number: int, learning_rate: float) -> Learnt:
        """Step ``number`` (from 1) on these of the lesson's rows.

        Weights and the optimizer's state change only if loss and gradient norm are finite (in a fused step
        those whose own gradient is), and if there was anything to learn. Without a finite loss there is
        no gradient norm among the metrics.
        """
        torch.manual_seed(_step_seed(self.spec.seed, number))
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        # Of weights spread over ranks a gradient is whole only once it is reduced; torch tells of that.
        settle = self._fused if self.lesson.crew.size == 1 else None
        learnt = self.lesson.learn(rows, number, settle)
        figures = {"train_loss": learnt.loss, "learning_rate": learning_rate}
        if _finite(learnt.loss):
            figures["grad_norm"] = self._stepped() if learnt.signal else 0.0
        self.optimizer.zero_grad(set_to_none=True)
        return replace(learnt, metrics=figures | learnt.metrics)

    def measure(self) -> dict[str, float]:
        """The lesson's metrics of held-out rows, with dropout off."""
        self.model.eval()
        try:
            return self.lesson.measure()
        finally:
            self.model.train()
            let_go(self.model)

    def _stepped(self) -> float:
        """Step what is not stepped yet; give the gradient's norm."""
        if self._fused is not None:
            return self._fused.finish()
        norm = self._gradient_norm()
        if _finite(norm):
            self.optimizer.step()
        return norm

    def _gradient_norm(self) -> float:
        return gradient_norm(self.model.parameters())


def _finite(value: float) -> bool:
    return value - value == 0.0


def _step_seed(seed: int, step: int) -> int:
    return int.from_bytes(blake2b(f"{seed}/{step}".encode(), digest_size=7).digest())
