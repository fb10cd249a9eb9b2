"""What stands in for the forward of a decoder layer while a model is attached."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from core.streambp.call import LayerCall
from core.streambp.errors import AttachmentError, LayerCallError
from core.streambp.layer import StreamedLayer
from core.streambp.visibility import Rule


class StreamedForward:
    """Runs the layer as one streamed autograd node; `forward` is the layer's own."""

    def __init__(self, layer: nn.Module, forward: Any, chunk_tokens: int) -> None:
        self.layer, self.forward, self.chunk_tokens = layer, forward, chunk_tokens

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer in chunks."""
        refuse_gradient_checkpointing(self.layer)
        call, hidden_BTD = LayerCall.bind(self.forward, args, kwargs)
        call.attached = lambda: self.layer.__dict__.get("forward") is self
        # Looked up now: sharding and adapters may have replaced parameters since attach.
        params = tuple(self.layer.parameters())
        out_BTD = StreamedLayer.apply(call, self.chunk_tokens, hidden_BTD, *params)
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


class RecordedForward:
    """Keeps what the untouched layer received and gave back, for the probe to compare with."""

    def __init__(self, forward: Any) -> None:
        self.forward = forward
        self.hidden: Tensor | None = None
        self.out: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer and keep what went in and out."""
        self.hidden = args[0] if args else kwargs.get("hidden_states")
        self.out = self.forward(*args, **kwargs)
        return self.out


class ProbingForward:
    """Tries the layer streamed and whole, notes what failed, and answers with the recorded output.

    `streamed` and `whole` are None where the attempt agreed with the record, else the reason.
    """

    def __init__(self, layer: nn.Module, record: RecordedForward, chunk_tokens: int) -> None:
        self.streamer = StreamedForward(layer, record.forward, chunk_tokens)
        self.record = record
        self.streamed: str | None = "the decoder never called it"
        self.whole: str | None = "the decoder never called it"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Try the layer and answer with the record."""
        described = any(isinstance(x, Rule) for x in (*args, *kwargs.values()))
        self.streamed = self._difference(self.streamer, args, kwargs)
        # A layer that was given no rule in its mask's place runs as it always did.
        self.whole = self._difference(self.record.forward, args, kwargs) if described else None
        return self.record.out

    def _difference(self, forward: Any, args: Any, kwargs: Any) -> str | None:
        try:
            out = _first(forward(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  any failure of a foreign layer is a reason
            return f"{type(error).__name__}: {error}"
        want = _first(self.record.out)
        if self.record.hidden is None or out.shape != want.shape:
            return f"its output has shape {tuple(out.shape)}, whole {tuple(want.shape)}"
        off = (out - want).double().norm().item()
        update = (want - self.record.hidden).double().norm().item()
        noise = torch.finfo(want.dtype).eps * want.double().norm().item()
        allowed = _SHARE[want.dtype] * update + 4 * noise
        return None if off <= allowed else f"chunks change its output by {off / update:.1e}"


# Error allowed as a share of what the layer adds to its input. Float64 models cast to float32.
_SHARE = {torch.float64: 1e-5, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def _first(out: Any) -> Tensor:
    return out if isinstance(out, Tensor) else out[0]


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
