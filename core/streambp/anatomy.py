"""Where a stock causal language model keeps its decoder, its decoder layers and its head.

Nothing here is per family: transformers' own conventions are read, and a model that does not keep
them is refused with the name of what was looked for.
"""

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from core.streambp.errors import UnsupportedModelError


def causal_lm(model: nn.Module) -> PreTrainedModel:
    """Find the transformers model itself, out of a wrapper that has `get_base_model` (adapters)."""
    unwrap = getattr(model, "get_base_model", None)
    inner = unwrap() if callable(unwrap) else model
    if not isinstance(inner, PreTrainedModel):
        raise UnsupportedModelError(
            "model", type(model).__name__, "give a transformers causal language model"
        )
    return inner


def decoder_of(model: PreTrainedModel) -> nn.Module:
    """Find the model below the head; refuse encoders, encoder-decoders and bare decoders."""
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedModelError("model", name, "it is an encoder-decoder: give a decoder")
    decoder = model.get_decoder()
    if decoder is model:  # a prefix that names no module: take the model inside the model
        inner = (child for child in model.children() if isinstance(child, PreTrainedModel))
        decoder = next(inner, model)
    if decoder is model or model.get_output_embeddings() is None:
        raise UnsupportedModelError(
            "model", name, "no head was found: looked for get_decoder() and output embeddings"
        )
    for path, module in decoder.named_modules():
        if getattr(module, "is_causal", True) is False:
            raise UnsupportedModelError("model", name, f"{path} attends in both directions")
    return decoder


def decoder_layers(model: PreTrainedModel, decoder: nn.Module) -> list[tuple[str, nn.Module]]:
    """Find the decoder layers, in order, with their names."""
    unsplit = set(model._no_split_modules or ())  # noqa: SLF001  transformers' own list of layers
    for path, module in decoder.named_modules():
        if not isinstance(module, nn.ModuleList) or not len(module):
            continue
        if all(
            isinstance(x, GradientCheckpointingLayer) or type(x).__name__ in unsplit for x in module
        ):
            return [(f"{path}.{index}", layer) for index, layer in enumerate(module)]
    raise UnsupportedModelError(
        "model",
        type(model).__name__,
        "no decoder layers were found: looked for a ModuleList of GradientCheckpointingLayer",
    )
