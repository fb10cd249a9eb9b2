"""A model that learns: its rows' losses, and one optimizer step.

Everything random in step k is drawn from a generator seeded by (seed, k). So the random state is a function
of the step's number, and a resumed run needs no more than that number to be bit-equal.
"""

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor
from transformers import PreTrainedModel

from core.data.encoded import Encoded
from core.objectives import Loss, linear_weight, sft
from core.optim import FusedStep, NamedOptimizer
from core.spec.job import JobSpec
from core.streambp import backward_linear, token_logps
from core.train.passes import Pass, passes, target_count


class Learner:
    """The model, its optimizer and the spec's way of using them."""

    def __init__(
        self, spec: JobSpec, model: PreTrainedModel, optimizer: torch.optim.Optimizer
    ) -> None:
        self.spec = spec
        self.model = model
        self.optimizer = optimizer
        self._device = next(model.parameters()).device
        self._fused: FusedStep | None = None
        if spec.trainer.step == "fused":
            assert isinstance(optimizer, NamedOptimizer), "a resolved spec has seen to it"
            self._fused = FusedStep(optimizer)

    def step(self, rows: Sequence[Encoded], number: int, learning_rate: float) -> dict[str, float]:
        """Step ``number`` (from 1) on ``rows``; returns its metrics.

        Weights change only if these are finite; in a fused step those whose own gradient is.
        """
        torch.manual_seed(_step_seed(self.spec.seed, number))
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        count = target_count(rows)
        token_loss = sum(self._learn(part, count).sums["token_loss"] for part in self._passes(rows))
        loss = token_loss / count
        norm = self._stepped() if _finite(loss) else float("nan")
        self.optimizer.zero_grad(set_to_none=True)
        return {"train_loss": loss, "grad_norm": norm, "learning_rate": learning_rate}

    def _stepped(self) -> float:
        """Step what is not stepped yet; give the gradient's norm."""
        if self._fused is not None:
            return self._fused.finish()
        norm = self._gradient_norm()
        if _finite(norm):
            self.optimizer.step()
        return norm

    @torch.no_grad()
    def mean_loss(self, rows: Sequence[Encoded]) -> float:
        """The mean loss of the trained tokens of ``rows``, in nats, with dropout off."""
        self.model.eval()
        try:
            total = sum(self._loss(part, 1).sums["token_loss"] for part in self._passes(rows))
        finally:
            self.model.train()
        return total / target_count(rows)

    def _passes(self, rows: Sequence[Encoded]) -> list[Pass]:
        tokens = self.spec.trainer.tokens_per_pass
        assert tokens is not None
        return list(passes(rows, tokens, self._device))

    def _learn(self, part: Pass, normaliser: float) -> Loss:
        """Add a pass's gradients; cross-entropy is linear, so the head is walked once."""

        def objective(logp_BT: Tensor) -> Loss:
            return sft(logp_BT, part.weight_BT, normaliser=normaliser)

        tile = self.spec.trainer.stream.head_chunk_tokens
        weight_BT = linear_weight(objective, part.weight_BT)
        return objective(
            backward_linear(
                self.model, *part.scored, weight_BT, head_chunk_tokens=tile, settle=self._fused
            )
        )

    def _loss(self, part: Pass, normaliser: float) -> Loss:
        tile = self.spec.trainer.stream.head_chunk_tokens
        logp_BT = token_logps(self.model, *part.scored, head_chunk_tokens=tile)
        return sft(logp_BT, part.weight_BT, normaliser=normaliser)

    def _gradient_norm(self) -> float:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norms = torch._foreach_norm(gradients)  # noqa: SLF001 - what torch's own clipping calls
        return float(torch.linalg.vector_norm(torch.stack(norms)))


def _finite(value: float) -> bool:
    return value - value == 0.0


def _step_seed(seed: int, step: int) -> int:
    return int.from_bytes(blake2b(f"{seed}/{step}".encode(), digest_size=7).digest())
