"""Turn a stock model into a streamed one, and back.

Only two things change, both on this one model: the `forward` of its decoder layers, its last norm
and its embedding, and the configuration objects inside its decoder, which become copies that name
our attention. Parameters, buffers, module names and `model.config` stay as they are, so a state
dict before, during and after is the same. Whether a layer can be streamed is tried, not looked up:
a few tokens go through it in chunks, and a layer that then answers differently is checkpointed
whole and says why.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from torch import nn

from core.streambp.anatomy import causal_lm, decoder_layers, decoder_of
from core.streambp.errors import AttachmentError
from core.streambp.forwards import (
    CheckpointedForward,
    StreamedForward,
    refuse_attached,
    refuse_gradient_checkpointing,
)
from core.streambp.head import Head
from core.streambp.late import LateForward
from core.streambp.policy import Keep, StoreName, policy
from core.streambp.probe import tried
from core.streambp.straight import (
    StraightEmbedding,
    StraightLinear,
    is_plain_embedding,
    is_plain_linear,
)
from core.streambp.swaps import Undo, name_our_attention, open_empty_windows

Status = Literal["streamed", "checkpointed"]
_ATTRIBUTE = "_streambp_attachment"


@dataclass(frozen=True, slots=True)
class LayerReport:
    """How one decoder layer is run; `reason` is empty for a streamed layer.

    One that `carries` states from token to token mixes packed documents, as a checkpointed one may.
    """

    name: str
    status: Status
    reason: str
    carries: bool = False

    @property
    def mixes(self) -> bool:
        """Whether it may mix the documents of a row: such a model is given one document a row."""
        return self.carries or self.status == "checkpointed"


class Attachment:
    """A model's streamed state. `detach` (or leaving it as a context) makes the model stock again.

    `layers` reports every decoder layer in order; `decoder` gives the hidden states of which `head`
    makes logits. `remark` tells where the policy differs from what was asked for.
    """

    def __init__(
        self, model: nn.Module, decoder: nn.Module, head: Head, layers: tuple[LayerReport, ...],
        windows: Undo, streaming: Undo, remark: str = "",
    ) -> None:  # fmt: skip
        self.model, self.decoder, self.head, self.layers = model, decoder, head, layers
        self.remark = remark
        self._windows, self._streaming = windows, streaming

    @property
    def mixing(self) -> tuple[str, ...]:
        """The layers that would mix documents that stand in one row; none: rows may be packed."""
        return tuple(layer.name for layer in self.layers if layer.mixes)

    def detach(self) -> None:
        """Restore every forward and configuration; a second call does nothing."""
        self._streaming.run()
        self._windows.run()
        attributes = causal_lm(self.model).__dict__
        if attributes.get(_ATTRIBUTE) is self:
            del attributes[_ATTRIBUTE]

    def paused(self) -> AbstractContextManager[None]:
        """While the block runs, the model computes as a stock one, with a cache if it is given one.

        What was opened of its windows stays open. Run no backward pass of what was streamed before,
        and do not attach, detach or copy the model inside.
        """
        return self._streaming.paused()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.detach()


def attach(
    model: nn.Module,
    *,
    chunk_tokens: int,
    keep: Keep = "hidden",
    store: StoreName = "device",
    folder: Path | str | None = None,
) -> Attachment:
    """Stream `model`, a transformers causal language model, in chunks of `chunk_tokens` tokens.

    `keep` says what a layer keeps for its backward pass (see `policy`), `store` where: on the
    device, in pinned memory of the host ("cpu"), or in files in `folder` ("disk") which are gone
    when the tensors are. Gradients stay exact. The weights must be loaded, for a few tokens are
    run. Raises ChunkLengthError, PolicyError, UnsupportedModelError, UnknownHeadError or
    AttachmentError.
    """
    causal = causal_lm(model)
    kept = policy(chunk_tokens, keep, store, folder, next(causal.parameters()).device)
    decoder = decoder_of(causal)
    layers = decoder_layers(causal, decoder)
    for _, layer in layers:
        refuse_attached(layer)
        refuse_gradient_checkpointing(layer)
    trial = tried(causal, decoder, layers)
    windows, undo, remark = Undo(), Undo(), kept.remark
    if open_empty_windows(decoder, windows):
        remark = "; ".join(filter(None, (remark, "sliding_window = 0 is taken for no window")))
    if trial.streams:
        name_our_attention(decoder, undo)
    reports = []
    for (name, layer), reason, carries in zip(layers, trial.reasons, trial.carries, strict=True):
        forward = layer.forward
        new: Any = CheckpointedForward(layer, forward)
        if not reason:
            new = StreamedForward(layer, forward, kept)
            for module in filter(is_plain_linear, layer.modules()):
                undo.set(module, "forward", StraightLinear(module))
        undo.set(layer, "forward", new)
        status: Status = "checkpointed" if reason else "streamed"
        reports.append(LayerReport(name, status, reason, carries))
    head = trial.head
    if trial.last is not None:
        head = replace(head, norm=LateForward(trial.last))
        undo.set(trial.last, "forward", head.norm)
    embedding = causal.get_input_embeddings()
    if is_plain_embedding(embedding):
        undo.set(embedding, "forward", StraightEmbedding(embedding))
    attachment = Attachment(model, decoder, head, tuple(reports), windows, undo, remark)
    causal.__dict__[_ATTRIBUTE] = attachment
    return attachment


def unstreamed(model: nn.Module) -> AbstractContextManager[None]:
    """While the block runs, let the model compute as a stock one; see `Attachment.paused`.

    For decoding with a cache, which streamed layers refuse. A stock model is left as it is.
    """
    found: Attachment | None = causal_lm(model).__dict__.get(_ATTRIBUTE)
    return nullcontext() if found is None else found.paused()


def attachment_of(model: nn.Module) -> Attachment:
    """Find the attachment of a model; AttachmentError where it is not attached."""
    found = causal_lm(model).__dict__.get(_ATTRIBUTE)
    if found is None:
        raise AttachmentError("model", type(model).__name__, "call attach(model, ...) first")
    return found
