"""Turn a stock model into a streamed one, and back.

Only two things change, both on this one model: the `forward` of its decoder layers, and the
configuration objects inside its decoder, which become copies that name our attention. Parameters,
buffers, module names and `model.config` stay as they are, so a state dict before, during and after
is the same. Whether a layer can be streamed is tried, not looked up: a few tokens go through it in
chunks, and a layer that then answers differently is checkpointed whole and says why.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from core.streambp.anatomy import causal_lm, decoder_layers, decoder_of
from core.streambp.errors import AttachmentError, at_least_one
from core.streambp.forwards import (
    CheckpointedForward,
    ProbingForward,
    RecordedForward,
    StreamedForward,
    refuse_attached,
    refuse_gradient_checkpointing,
)
from core.streambp.head import Head, known_head
from core.streambp.visibility import IMPLEMENTATION

_PROBE_TOKENS, _PROBE_CHUNK = 5, 2
_ATTRIBUTE = "_streambp_attachment"
_MISSING = object()


@dataclass(frozen=True, slots=True)
class LayerReport:
    """How one decoder layer is run; `reason` is empty for a streamed layer."""

    name: str
    status: Literal["streamed", "checkpointed"]
    reason: str


class Attachment:
    """A model's streamed state. `detach` (or leaving it as a context) makes the model stock again.

    `layers` reports every decoder layer in order; `decoder` gives the hidden states of which `head`
    makes logits.
    """

    def __init__(
        self, model: nn.Module, decoder: nn.Module, head: Head, layers: tuple[LayerReport, ...],
        undo: "Undo",
    ) -> None:  # fmt: skip
        self.model, self.decoder, self.head, self.layers = model, decoder, head, layers
        self._undo = undo

    def detach(self) -> None:
        """Restore every forward and configuration; a second call does nothing."""
        self._undo.run()
        causal_lm(self.model).__dict__.pop(_ATTRIBUTE, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.detach()


def attach(model: nn.Module, *, chunk_tokens: int) -> Attachment:
    """Stream `model`, a transformers causal language model, in chunks of `chunk_tokens` tokens.

    Gradients stay exact. The weights must be loaded, for a few tokens are run. Raises
    ChunkLengthError, UnsupportedModelError, UnknownHeadError or AttachmentError.
    """
    at_least_one("chunk_tokens", chunk_tokens)
    causal = causal_lm(model)
    decoder = decoder_of(causal)
    layers = decoder_layers(causal, decoder)
    for _, layer in layers:
        refuse_attached(layer)
        refuse_gradient_checkpointing(layer)
    trial = _tried(causal, decoder, [layer for _, layer in layers])
    undo = Undo()
    if trial.streams:
        _name_our_attention(decoder, undo)
    reports = []
    for (name, layer), reason in zip(layers, trial.reasons, strict=True):
        forward = layer.forward
        new: Any = CheckpointedForward(layer, forward)
        if not reason:
            new = StreamedForward(layer, forward, chunk_tokens)
        undo.set(layer, "forward", new)
        reports.append(LayerReport(name, "checkpointed" if reason else "streamed", reason))
    attachment = Attachment(model, decoder, trial.head, tuple(reports), undo)
    causal.__dict__[_ATTRIBUTE] = attachment
    return attachment


def attachment_of(model: nn.Module) -> Attachment:
    """Find the attachment of a model; AttachmentError where it is not attached."""
    found = causal_lm(model).__dict__.get(_ATTRIBUTE)
    if found is None:
        raise AttachmentError("model", type(model).__name__, "call attach(model, ...) first")
    return found


class Undo:
    """Attributes set on modules, with what they were."""

    def __init__(self) -> None:
        self._done: list[tuple[nn.Module, str, Any]] = []

    def set(self, module: nn.Module, name: str, value: Any) -> None:
        """Set an instance attribute, past nn.Module's own bookkeeping."""
        self._done.append((module, name, module.__dict__.get(name, _MISSING)))
        module.__dict__[name] = value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.run()

    def run(self) -> None:
        """Put everything back, last change first."""
        while self._done:
            module, name, before = self._done.pop()
            if before is _MISSING:
                module.__dict__.pop(name, None)
            else:
                module.__dict__[name] = before


def _name_our_attention(decoder: nn.Module, undo: Undo) -> None:
    """Give the decoder its own copies of its configurations: two models may share the originals."""
    copies: dict[int, Any] = {}
    for module in decoder.modules():
        config = module.__dict__.get("config")
        if config is None or not hasattr(config, "_attn_implementation"):
            continue
        if id(config) not in copies:
            ours = copies[id(config)] = copy.deepcopy(config)
            ours._attn_implementation = IMPLEMENTATION  # noqa: SLF001  has no public setter
            ours.use_cache = False
        undo.set(module, "config", copies[id(config)])


@dataclass(frozen=True, slots=True)
class _Trial:
    """What a few tokens told: the head, and for each layer why it cannot be streamed, or ''."""

    head: Head
    reasons: tuple[str, ...]

    @property
    def streams(self) -> bool:
        return "" in self.reasons


def _tried(causal: PreTrainedModel, decoder: nn.Module, layers: list[nn.Module]) -> _Trial:
    ids = torch.arange(_PROBE_TOKENS, device=next(decoder.parameters()).device)[None]
    undo = Undo()
    records = [RecordedForward(layer.forward) for layer in layers]
    probes = [ProbingForward(x, r, _PROBE_CHUNK) for x, r in zip(layers, records, strict=True)]
    # With gradients on, so that a layer shows which of its inputs carry any.
    with torch.enable_grad(), _evaluating(causal), undo:
        for layer, record in zip(layers, records, strict=True):
            undo.set(layer, "forward", record)
        with torch.no_grad():
            head = known_head(causal, decoder, ids)
        _name_our_attention(decoder, undo)
        for layer, probe in zip(layers, probes, strict=True):
            undo.set(layer, "forward", probe)
        # Without masks to compute with, a decoder or a layer that is not streamed may fail: then
        # the model keeps its own attention and masks, and every layer is checkpointed.
        choked = _failure(decoder, ids)
        choked = choked or next((p.whole for p in probes if p.streamed and p.whole), "")
    reasons = (
        p.streamed or (choked and f"the model needs its own masks: {choked}") for p in probes
    )
    return _Trial(head, tuple(reasons))


def _failure(decoder: nn.Module, ids_BT: Tensor) -> str:
    try:
        decoder(input_ids=ids_BT, use_cache=False)
    except Exception as error:  # noqa: BLE001  any failure of a foreign decoder is a reason
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Run without dropout, and with every module's own mode put back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
