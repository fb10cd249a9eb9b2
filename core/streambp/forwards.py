"""What stands in for the forward of a decoder layer while a model is attached."""

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.utils.output_capturing import _active_collector  # has no public reader

from core.streambp.call import LayerCall
from core.streambp.errors import AttachmentError, LayerCallError
from core.streambp.layer import StreamedLayer
from core.streambp.policy import Policy
from core.streambp.source import lookup_of


class StreamedForward:
    """Runs the layer as one streamed autograd node; `forward` is the layer's own."""

    def __init__(self, layer: nn.Module, forward: Any, policy: Policy) -> None:
        self.layer, self.forward, self.policy = layer, forward, policy
        self.stand_in: object = self  # what is to be found in the place of the layer's forward
        self.carries = False  # whether the layer was seen to carry states from chunk to chunk
        self._forgetful = Policy(policy.chunk_tokens)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer in chunks."""
        refuse_gradient_checkpointing(self.layer)
        call, hidden_BTD = LayerCall.bind(self.forward, args, kwargs)
        call.attached = lambda: self.layer.__dict__.get("forward") is self.stand_in
        # Looked up now: sharding and adapters may have replaced parameters since attach.
        params = call.params = tuple(self.layer.parameters())
        # Without a backward pass to come there is nothing to keep.
        policy = self.policy if torch.is_grad_enabled() else self._forgetful
        recorded = _recorded()
        out_BTD = StreamedLayer.apply(call, policy, lookup_of(hidden_BTD), hidden_BTD, *params)
        if _recorded() != recorded:
            raise LayerCallError(
                "layer", type(self.layer).__name__, "what transformers records inside a streamed"
                " layer is in pieces and carries no gradient: do not ask for output_router_logits,"
                " or set it in the configuration before attaching",
            )  # fmt: skip
        self.carries = call.carries
        return call.packaged(out_BTD)


class CheckpointedForward:
    """Runs the layer whole and recomputes it in the backward pass: exact, but not streamed."""

    def __init__(self, layer: nn.Module, forward: Any) -> None:
        self.layer, self.forward = layer, forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer whole."""
        refuse_gradient_checkpointing(self.layer)
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        return checkpoint(self.forward, *args, use_reentrant=False, **kwargs)


def _recorded() -> int:
    """Count what the decoder that runs now has collected, by hooks on modules inside it."""
    collected = _active_collector.get() or {}
    return sum(len(outputs) for outputs in collected.values())


def refuse_gradient_checkpointing(layer: nn.Module) -> None:
    """Two recomputations do not nest: ours replaces the one of transformers."""
    if getattr(layer, "gradient_checkpointing", False):
        raise LayerCallError(
            "gradient_checkpointing", True, "call gradient_checkpointing_disable(): streaming"
            " recomputes already",
        )  # fmt: skip


def refuse_attached(layer: nn.Module) -> None:
    """Raise AttachmentError where the forward of `layer` is one of ours."""
    if isinstance(layer.__dict__.get("forward"), (StreamedForward, CheckpointedForward)):
        raise AttachmentError("model", type(layer).__name__, "it is attached: detach it first")
