"""What one chunk of one decoder layer costs, found without weights.

The model is built on the `meta` device, where tensors have shapes and no bytes, and one layer of
each kind is run forward and backward on one chunk while `LiveBytes` counts. So the figures come
from the family's own code, not from a formula per family.

Legend: B rows, C chunk, D width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from core.streambp.anatomy import decoder_layers, decoder_of
from core.streambp.call import cache_argument
from core.streambp.dtypes import summing_dtype
from core.streambp.errors import PlanError, at_least_one
from core.streambp.peak import LiveBytes
from core.streambp.plan.attention import PLANNED, watching
from core.streambp.straight import is_plain_embedding


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One decoder layer, in bytes; widths of keys and values in elements per token.

    `walk` is the most that one chunk needs, forward and backward, with the gradient of one parameter
    at a time; `read` the most that it needs forward alone. `parameters` are all weights, `gradients`
    the long sums of the trained ones. `score_heads` is 0 where a kernel attends, else how many heads'
    scores are spelled out. `window` limits what a chunk sees. `whole` is True where the layer cannot
    be streamed, `looked_up` where its input is made again from tokens.
    """

    walk: int
    read: int
    parameters: int
    gradients: int
    key_width: int
    value_width: int
    attention_width: int
    query_heads: int
    score_heads: int
    window: int | None
    whole: bool
    looked_up: bool = False

    @property
    def mixes(self) -> bool:
        """Say whether it would mix documents that stand in one row: no attention tells them apart."""
        return self.whole or not self.key_width


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a model costs, chunk by chunk; made by `footprint`.

    `gradients` are bytes of `.grad`, of trained weights alone, of which the largest has as many elements
    as `largest_parameter` says; some are `narrow` if their long sums need a wider dtype.
    """

    model_type: str
    dtype: torch.dtype
    chunk_tokens: int
    weights: int
    embedding: int
    tied: bool
    width: int
    vocabulary: int
    largest_parameter: int
    gradients: int
    narrow: bool
    head_trained: bool
    layers: tuple[LayerCost, ...]

    @property
    def mixing(self) -> bool:
        """Say whether a layer mixes documents, so that rows are not packed and prompts not shared."""
        return any(layer.mixes for layer in self.layers)


def meta_model(config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """The model with shapes and without bytes. Raises PlanError where it cannot be built so."""
    try:
        with torch.device("meta"):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(
                config, dtype=dtype, attn_implementation=PLANNED
            )
    except Exception as error:
        raise PlanError(
            "model", str(config.model_type), f"it cannot be built without weights: {error}"
        ) from error
    return model.train()


Change = Callable[[PreTrainedModel], None]
"""What is done to a model before it is trained: parts are frozen, or adapters put in."""


def footprint(
    config: PreTrainedConfig, *, dtype: torch.dtype, chunk_tokens: int, change: Change | None = None
) -> Footprint:
    """Count what a model of `config` costs in chunks of `chunk_tokens`. Raises StreamErrors."""
    return footprints(config, dtype=dtype, chunk_lengths=[chunk_tokens], change=change)[0]


def footprints(
    config: PreTrainedConfig, *, dtype: torch.dtype, chunk_lengths: Sequence[int],
    change: Change | None = None,
) -> list[Footprint]:  # fmt: skip
    """As `footprint`, for several chunk lengths of one model."""
    for length in chunk_lengths:
        at_least_one("chunk_tokens", length)
    model = meta_model(config, dtype)
    if change is not None:
        change(model)
    return [_counted(model, str(config.model_type), length) for length in chunk_lengths]


def _counted(model: PreTrainedModel, model_type: str, chunk_tokens: int) -> Footprint:
    decoder = decoder_of(model)
    layers = [layer for _, layer in decoder_layers(model, decoder)]
    embedding: Any = model.get_input_embeddings().weight
    output: Any = model.get_output_embeddings().weight
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    return Footprint(
        model_type=model_type,
        dtype=output.dtype,
        chunk_tokens=chunk_tokens,
        weights=sum(map(_bytes, parameters)),
        embedding=_bytes(embedding),
        tied=embedding is output,
        width=output.shape[1],
        vocabulary=output.shape[0],
        largest_parameter=max(p.numel() for p in trained),
        gradients=sum(map(_bytes, trained)),
        narrow=any(summing_dtype(p.dtype) != p.dtype for p in trained),
        head_trained=output.requires_grad,
        layers=_costs(model, decoder, layers, chunk_tokens),
    )


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


def _costs(
    model: PreTrainedModel, decoder: nn.Module, layers: list[nn.Module], chunk: int
) -> tuple[LayerCost, ...]:
    ids_BC = torch.zeros(1, chunk, dtype=torch.long, device="meta")
    # The mask has bytes, for transformers looks into it; without one it looks at positions.
    mask_BC = torch.ones(1, chunk, dtype=torch.bool, device="cpu")
    with _rows_of(model) as rows, _probing(layers, rows) as probes:
        try:
            with torch.enable_grad():
                decoder(input_ids=ids_BC, attention_mask=mask_BC, use_cache=False)
        except Exception as error:
            raise PlanError(
                "model", type(model).__name__, f"it cannot be run without weights: {error}"
            ) from error
    return tuple(probe.cost for probe in probes)


@contextmanager
def _shares_dropped(parameters: list[nn.Parameter]) -> Iterator[None]:
    """Let go of a parameter's share as soon as it is made, as if it had been added to a sum."""
    with ExitStack() as stack:
        for parameter in parameters:
            hook = parameter.register_hook(lambda share: share.new_zeros(()).expand(share.shape))
            stack.callback(hook.remove)
        yield


@contextmanager
def _rows_of(model: PreTrainedModel) -> Iterator[list[Tensor]]:
    """Gather what the embedding answers, where that can be looked up again."""
    embedding, rows = model.get_input_embeddings(), list[Tensor]()
    hook = embedding.register_forward_hook(lambda _module, _args, out: rows.append(out))
    try:
        yield rows if is_plain_embedding(embedding) else []
    finally:
        hook.remove()


@contextmanager
def _probing(layers: list[nn.Module], rows: list[Tensor]) -> Iterator[list["_Probe"]]:
    """Put a probe in the place of every layer's forward."""
    known: dict[Any, LayerCost] = {}
    probes = [_Probe(layer, known, rows) for layer in layers]
    for layer, probe in zip(layers, probes, strict=True):
        layer.forward = probe
    try:
        yield probes
    finally:
        for layer in layers:
            del layer.forward


class _Probe:
    """Stands for a layer's forward: counts what the layer needs, and passes its input on."""

    def __init__(self, layer: nn.Module, known: dict[Any, LayerCost], rows: list[Tensor]) -> None:
        self.layer, self.forward, self.known, self.rows = layer, layer.forward, known, rows
        self._cost: LayerCost | None = None

    @property
    def cost(self) -> LayerCost:
        """The layer's cost; PlanError where the decoder never called it."""
        if self._cost is None:
            raise PlanError("layer", type(self.layer).__name__, "the decoder never calls it")
        return self._cost

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Count once per kind of layer."""
        key = (type(self.layer), *((n, p.shape) for n, p in self.layer.named_parameters()), *(
            str(getattr(self.layer, name, None)) for name in ("layer_type", "attention_type")
        ))  # fmt: skip
        hidden_BCD = args[0] if args else kwargs.pop("hidden_states")
        if key not in self.known:
            self.known[key] = self._counted(hidden_BCD, args[1:], kwargs)
        looked_up = any(hidden_BCD is rows for rows in self.rows)
        self._cost = replace(self.known[key], looked_up=looked_up)
        return hidden_BCD.detach()

    def _counted(self, hidden_BCD: Tensor, args: Any, kwargs: Any) -> LayerCost:
        parameters = [p for p in self.layer.parameters() if p.requires_grad]
        with _shares_dropped(parameters), watching() as seen, LiveBytes() as live:
            hidden = hidden_BCD.detach().requires_grad_()
            out = self.forward(hidden, *args, **kwargs)
            out = out if isinstance(out, Tensor) else out[0]
            torch.autograd.grad(
                out, [hidden, *parameters], torch.empty_like(out), allow_unused=True
            )
        with torch.no_grad(), watching(), LiveBytes() as reading:
            self.forward(hidden, *args, **kwargs)
        return LayerCost(
            walk=live.peak,
            read=reading.peak,
            parameters=sum(map(_bytes, self.layer.parameters())),
            gradients=sum(p.numel() * summing_dtype(p.dtype).itemsize for p in parameters),
            key_width=seen.key_width,
            value_width=seen.value_width,
            attention_width=seen.attention_width,
            query_heads=seen.query_heads,
            score_heads=seen.query_heads if seen.eager else 0,
            window=seen.window,
            whole=cache_argument(self.forward) is None,
        )
