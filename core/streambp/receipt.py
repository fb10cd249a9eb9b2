"""The exactness receipt: streamed gradients of a model beside those of plain autograd.

One batch of two rows of different lengths, some tokens unscored, every other one with a weight of
its own, goes through the oracle (`core.streambp.plain`) and through the engine at several chunk
lengths. A parameter's error is the norm of the difference over the norm of its gradient; a gradient
that is nothing but the others' rounding is measured against a hundredth of the largest.

Legend: B rows, T tokens.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from core.streambp import plain
from core.streambp.attach import LayerReport, attach
from core.streambp.layout import Layout
from core.streambp.logps import IGNORED, token_logps
from core.streambp.peak import LiveBytes
from core.streambp.widen import Widened

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 1e-1, torch.float16: 3e-2}
"""By dtype. Below float64 both sides round, at different places: a receipt is worth less there."""

_NOISE = 1e-2
_UNSCORED = 2
_INDEX = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")


class PlainFailed(RuntimeError):
    """The untouched model does not run: there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Two rows: ids, targets, the weight of each token's log-probability."""

    ids_BT: Tensor
    targets_BT: Tensor
    weight_BT: Tensor
    layout: Layout

    @staticmethod
    def drawn(vocabulary: int, tokens: int, device: torch.device) -> "Batch":
        """Draw a batch of 2 x `tokens`, the second row a third shorter."""
        generator = torch.Generator().manual_seed(0)
        lowest = min(3, vocabulary - 1)  # the first ids are often special
        drawn = torch.randint(lowest, vocabulary, (2, 2, tokens), generator=generator)
        ids, targets = drawn.to(device).unbind(0)
        weight = torch.randn((2, tokens), generator=generator, dtype=torch.float64).to(device)
        shorter = tokens - tokens // 3
        targets[:, : min(_UNSCORED, shorter - 1)] = IGNORED
        targets[1, shorter:] = IGNORED
        return Batch(ids, targets, weight, Layout.causal([tokens, shorter], tokens))


@dataclass(frozen=True, slots=True)
class Run:
    """Log-probabilities, gradients by parameter name, and the peak of live bytes."""

    logp_BT: Tensor
    grads: dict[str, Tensor]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was compared. `errors` is the worst relative error by kind of parameter, over all chunks.

    The kind `logp` is the log-probabilities themselves. Peaks are above weights, in bytes; that of
    the streamed runs is the one of the longest chunk below T.
    """

    dtype: torch.dtype
    tokens: int
    chunk_tokens: tuple[int, ...]
    layers: tuple[LayerReport, ...]
    errors: dict[str, float]
    tolerance: float
    peak_plain: int
    peak_streamed: int

    @property
    def worst(self) -> float:
        """The worst error of all; NaN if there is one."""
        return max(self.errors.values(), key=_nan_last)

    @property
    def exact(self) -> bool:
        """Whether every error is within the tolerance."""
        return self.worst <= self.tolerance


def receipt(
    model: PreTrainedModel,
    *,
    tokens: int,
    chunk_tokens: Sequence[int],
    tolerance: float | None = None,
    widened: bool = False,
) -> Receipt:
    """Compare. `widened` spells the model's own float32 float64 meanwhile.

    `model` has its weights, is not attached, and gets its gradients overwritten.

    Raises StreamErrors for a model that is refused, PlainFailed for one that does not run at all.
    """
    with Widened() if widened else nullcontext():
        return _compared(model, tokens, chunk_tokens, tolerance)


def _compared(
    model: PreTrainedModel, tokens: int, chunk_tokens: Sequence[int], tolerance: float | None
) -> Receipt:
    weight = next(model.parameters())
    vocabulary = model.config.get_text_config().vocab_size
    batch = Batch.drawn(vocabulary, tokens, weight.device)
    try:
        want = _run(model, batch, plain.token_logps)
    except Exception as error:  # any failure of a foreign model
        raise PlainFailed(f"{type(error).__name__}: {error}") from error
    errors: dict[str, float] = {}
    peaks: dict[int, int] = {}
    layers: tuple[LayerReport, ...] = ()
    for chunk in chunk_tokens:
        with attach(model, chunk_tokens=chunk) as attachment:
            got = _run(model, batch, _streamed(chunk))
        layers = attachment.layers
        peaks[chunk] = got.peak_bytes
        for kind, difference in differences(got, want).items():
            errors[kind] = _worse(difference, errors.get(kind, 0.0))
    shorter = [chunk for chunk in chunk_tokens if chunk < tokens] or list(chunk_tokens)
    return Receipt(
        weight.dtype,
        tokens,
        tuple(chunk_tokens),
        layers,
        errors,
        TOLERANCE[weight.dtype] if tolerance is None else tolerance,
        want.peak_bytes,
        peaks[max(shorter)],
    )


def differences(got: Run, want: Run) -> dict[str, float]:
    """The worst relative error by kind of parameter, and of the log-probabilities."""
    errors = {"logp": _relative(got.logp_BT, want.logp_BT, 0.0)}
    largest = max((float(grad.norm()) for grad in want.grads.values()), default=0.0)
    for name, grad in want.grads.items():
        kind = _INDEX.sub("*", name)
        error = _relative(got.grads[name], grad, _NOISE * largest)
        errors[kind] = _worse(error, errors.get(kind, 0.0))
    return errors


def _relative(got: Tensor, want: Tensor, floor: float) -> float:
    size = float(want.double().norm()) + floor
    error = float((got.double() - want.double()).norm())
    return error / size if size else error


def _worse(one: float, other: float) -> float:
    return max(one, other, key=_nan_last)


def _nan_last(error: float) -> tuple[bool, float]:
    return math.isnan(error), error


def _streamed(chunk: int) -> Callable[..., Tensor]:
    def logps(model: PreTrainedModel, ids_BT: Tensor, targets_BT: Tensor, layout: Layout) -> Tensor:
        return token_logps(model, ids_BT, targets_BT, layout, head_chunk_tokens=chunk)

    return logps


def _run(model: PreTrainedModel, batch: Batch, logps: Callable[..., Tensor]) -> Run:
    model.zero_grad(set_to_none=True)
    with LiveBytes() as live:
        logp_BT = logps(model, batch.ids_BT, batch.targets_BT, batch.layout)
        (logp_BT * batch.weight_BT.to(logp_BT.dtype)).sum().backward()
    grads = {
        name: torch.zeros_like(p) if p.grad is None else p.grad.detach()
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    model.zero_grad(set_to_none=True)
    return Run(logp_BT.detach(), grads, live.peak)
