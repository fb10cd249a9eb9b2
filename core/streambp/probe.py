"""Whether a layer can be streamed is tried, not looked up.

A few tokens go through the untouched model; then each layer gets the same input in chunks, and
must give the same output: a layer that carries states must give the same gradient, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from core.streambp.causality import looking_ahead
from core.streambp.errors import StreamError, UnsupportedModelError
from core.streambp.forwards import StreamedForward
from core.streambp.head import Head, known_head
from core.streambp.late import last_module
from core.streambp.policy import Policy
from core.streambp.records import SHARE, RecordedForward, departure, first
from core.streambp.swaps import Undo, name_our_attention, open_empty_windows
from core.streambp.visibility import Rule

_PROBE_TOKENS, _PROBE_CHUNK = 7, 2


@dataclass(frozen=True, slots=True)
class Trial:
    """What a few tokens told: the head and, for each layer, why it cannot be streamed, or ''.

    `carries` says of each layer whether it carries states from token to token; `last` is the
    decoder's last module where it can be left to the head.
    """

    head: Head
    last: nn.Module | None
    reasons: tuple[str, ...]
    carries: tuple[bool, ...]

    @property
    def streams(self) -> bool:
        """Say whether any layer can be streamed."""
        return "" in self.reasons


def tried(causal: PreTrainedModel, decoder: nn.Module, named: list[tuple[str, nn.Module]]) -> Trial:
    """Run a few tokens through the untouched model, and through each layer in chunks.

    UnknownHeadError, or UnsupportedModelError where the model fails by itself or looks ahead.
    """
    ids, layers = _ids(decoder), [layer for _, layer in named]
    undo = Undo()
    records = [RecordedForward(layer.forward) for layer in layers]
    probes = [ProbingForward(x, r, _PROBE_CHUNK) for x, r in zip(layers, records, strict=True)]
    # With gradients on, so that a layer shows which of its inputs carry any.
    with torch.enable_grad(), evaluating(causal, ids.device), undo:
        open_empty_windows(decoder, undo)
        for layer, record in zip(layers, records, strict=True):
            undo.set(layer, "forward", record)
        head, last = _head_and_last(causal, decoder, ids)
        name_our_attention(decoder, undo)
        for layer, probe in zip(layers, probes, strict=True):
            undo.set(layer, "forward", probe)
        # Without masks to compute with, a decoder or a layer that is not streamed may fail: then
        # the model keeps its own attention and masks, and every layer is checkpointed.
        choked = _failure(decoder, ids)
        choked = choked or next((p.whole for p in probes if p.streamed and p.whole), "")
    reasons = tuple(
        p.streamed or (choked and f"the model needs its own masks: {choked}") for p in probes
    )
    if any(reasons):
        with evaluating(causal, ids.device), Undo() as undo:
            open_empty_windows(decoder, undo)
            ahead = looking_ahead(decoder, layers, records, ids)
        if ahead is not None:
            raise UnsupportedModelError(
                "model", type(causal).__name__, f"{named[ahead][0]} looks ahead: a token's scores"
                " would change with the padding after it",
            )  # fmt: skip
    return Trial(head, last, reasons, tuple(probe.streamer.carries for probe in probes))


def _ids(decoder: nn.Module) -> Tensor:
    return torch.arange(_PROBE_TOKENS, device=next(decoder.parameters()).device)[None]


def _head_and_last(
    causal: PreTrainedModel, decoder: nn.Module, ids_BT: Tensor
) -> tuple[Head, nn.Module | None]:
    try:
        with torch.no_grad():
            return known_head(causal, decoder, ids_BT), last_module(decoder, ids_BT)
    except (StreamError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever a foreign model fails with
        raise UnsupportedModelError(
            "model", type(causal).__name__, f"it fails by itself: {type(error).__name__}: {error}"
        ) from error


def _failure(decoder: nn.Module, ids_BT: Tensor) -> str:
    try:
        decoder(input_ids=ids_BT, use_cache=False)
    except Exception as error:  # noqa: BLE001  any failure of a foreign decoder is a reason
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def evaluating(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Run without dropout and autocast, whose rounding differs from chunks to whole rows.

    Every module's own mode is put back afterwards.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for module, training in modes:
            module.training = training


class ProbingForward:
    """Tries the layer streamed and whole, notes what failed, and answers with the recorded output.

    `streamed` and `whole` are None where the attempt agreed with the record, else the reason.
    """

    def __init__(self, layer: nn.Module, record: RecordedForward, chunk_tokens: int) -> None:
        self.streamer = StreamedForward(layer, record.forward, Policy(chunk_tokens))
        self.streamer.stand_in = self
        self.record = record
        self.streamed: str | None = "the decoder never called it"
        self.whole: str | None = "the decoder never called it"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Try the layer and answer with the record."""
        described = any(isinstance(x, Rule) for x in (*args, *kwargs.values()))
        self.streamed = self._tried(self.streamer, args, kwargs)
        # A layer that was given no rule in its mask's place runs as it always did.
        self.whole = self._tried(self.record.forward, args, kwargs) if described else None
        return self.record.out

    def _tried(self, forward: Any, args: Any, kwargs: Any) -> str | None:
        try:
            out = first(forward(*args, **kwargs))
            reason = self._difference(out)
            if reason is None and forward is self.streamer:
                reason = self._gradient_difference(args, kwargs)
        except Exception as error:  # noqa: BLE001  any failure of a foreign layer is a reason
            return f"{type(error).__name__}: {error}"
        return reason

    def _difference(self, out: Tensor) -> str | None:
        want = first(self.record.out)
        if self.record.hidden is None or out.shape != want.shape:
            return f"its output has shape {tuple(out.shape)}, whole {tuple(want.shape)}"
        off = departure(out, want, self.record.hidden)
        return None if off is None else f"chunks change its output by {off:.1e}"

    def _gradient_difference(self, args: Any, kwargs: Any) -> str | None:
        """Try the backward pass: a leaf that gets nothing shows there, and nowhere else.

        Of states compare gradients, too: one that is written over in place spoils them alone.
        """
        got = _gradient(self.streamer, args, kwargs)
        if not self.streamer.carries:
            return None
        want = _gradient(self.record.forward, args, kwargs)
        off = ((got - want).double().norm() / want.double().norm()).item()
        return None if off <= SHARE[want.dtype] else f"chunks change its gradient by {off:.1e}"


def _gradient(forward: Any, args: Any, kwargs: Any) -> Tensor:
    """Of the sum of squares of the output, with respect to the hidden states."""
    given = dict(kwargs)
    hidden = args[0] if args else given.pop("hidden_states")
    leaf = hidden.detach().requires_grad_()
    out = first(forward(leaf, *args[1:], **given))
    return torch.autograd.grad(out.square().sum(), leaf)[0]
