"""A whole model with int8 weights: how it gets them, and the two ways in which it is saved.

Matrices become int8: of linear layers, of fused experts, embeddings and head, tied ones as one.
Norms, biases, convolutions and routers stay, for they are small and what they say is fine.

    dequantised_tensors   ordinary tensors, one at a time, for safetensors that anybody can load
    exact_state           codes and scales as they are: what a run is resumed from
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from core.optim.errors import OptionError, ParameterError, StateMismatchError
from core.optim.groups import parameter_kinds, require_all_used
from core.optim.int8 import DTYPES, Int8Weight
from core.optim.quantise import GROUP, scales_shape

CODES, SCALES = ".codes", ".scales"
"""What is appended to a weight's name in an exact state."""

_SCALE_BYTES = torch.float32.itemsize
_Place = tuple[nn.Module, str]


def quantise_model(
    model: nn.Module, group: int = GROUP, include: Sequence[str] | None = None
) -> list[str]:
    """Turn the matrices of `model` into int8 in place, one after the other; give their names.

    Trainable or frozen, they stay so; gradients are dropped. `include` is shell patterns on
    parameter names (`*.mlp.*`): then other matrices stay as they are. The compute dtype of each is
    the dtype that it had.

    Raises OptionError for a group that is no power of two, PatternError for a pattern that matches
    no matrix, ParameterError for a dtype or for weights that are not finite.
    """
    places, chosen = _places(model), _chosen(model, include)
    for name in chosen:
        module, attribute = places[name][0]
        old = module._parameters[attribute]  # noqa: SLF001  a setter would not take the place of a tied one
        assert old is not None, "it was just listed"
        new = nn.Parameter(_int8(name, old, group), requires_grad=old.requires_grad)
        for module, attribute in places[name]:
            module._parameters[attribute] = new  # noqa: SLF001
    return chosen


def dequantised_tensors(
    model: nn.Module, dtype: torch.dtype | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Give what `model.state_dict()` holds as ordinary tensors, each made when it is asked for.

    A weight that is tied stands once, under its first name. With a `dtype` int8 weights come out in
    it instead of in their compute dtype. No two of them are held here at once.
    """
    for name, value in _once(model):
        yield name, value.dequantised(dtype) if isinstance(value, Int8Weight) else value


def exact_state(model: nn.Module) -> dict[str, Tensor]:
    """Give what `model.state_dict()` holds, `name.codes` and `name.scales` in an int8 weight's place.

    The tensors are the model's own, not copies. All are plain: a file of them loads with
    `weights_only=True`.
    """
    state: dict[str, Tensor] = {}
    for name, value in _once(model):
        if isinstance(value, Int8Weight):
            state[name + CODES], state[name + SCALES] = value.codes, value.scales
        else:
            state[name] = value
    return state


@torch.no_grad()
def load_exact_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Write an exact state into a model that is quantised alike, bit for bit.

    Raises StateMismatchError, changing nothing, where names, shapes or dtypes do not fit.
    """
    present = exact_state(model)
    for field, names in (
        ("missing", present.keys() - state),
        ("unexpected", state.keys() - present),
    ):
        if names:
            remedy = "quantise the same model with the same patterns before loading"
            raise StateMismatchError(f"{field} tensors", sorted(names)[:5], remedy)
    for name, value in present.items():
        if (state[name].shape, state[name].dtype) != (value.shape, value.dtype):
            found = f"{state[name].dtype} {tuple(state[name].shape)}"
            remedy = f"this model holds {value.dtype} {tuple(value.shape)}: quantise with its group"
            raise StateMismatchError(name, found, remedy)
    for name, value in _once(model):
        if isinstance(value, Int8Weight):
            codes, scales = state[name + CODES], state[name + SCALES]
            value.copy_(Int8Weight(codes, scales, value.group, value.dtype))
        else:
            value.copy_(state[name])


def int8_bytes(model: nn.Module, group: int = GROUP) -> int:
    """Count what the parameters take once `model`, which may lie on the meta device, is quantised."""
    chosen, total = set(_chosen(model, None)), 0
    for name, param in model.named_parameters():
        if name in chosen:
            total += param.numel() + scales_shape(param.shape, group).numel() * _SCALE_BYTES
        else:
            total += param.numel() * param.element_size()
    return total


def refuse_int8(params: Iterable[Tensor], optimizer: str) -> None:
    """Raise OptionError where a parameter is int8; for optimizers other than `Apollo` and `Scale`.

    torch's AdamW and SGD change a weight by several operations in place. An int8 weight would have
    to be rounded after each of them, to nearest, where an update far below one code vanishes; ours
    compute the new value in float32 and round it once, by chance.
    """
    if any(isinstance(param, Int8Weight) for param in params):
        remedy = (
            "int8 weights are trained with apollo, apollo_mini or scale; or keep them in bfloat16"
        )
        raise OptionError("optimizer", optimizer, remedy)


def _int8(name: str, value: Tensor, group: int) -> Int8Weight:
    if value.dtype not in DTYPES:
        raise ParameterError(name, value.dtype, "load the model in float32 or bfloat16")
    if not bool(value.isfinite().all()):
        raise ParameterError(name, "infinite or not a number", "these weights cannot be trained")
    return Int8Weight.quantised(value.detach(), group)


def _places(model: nn.Module) -> dict[str, list[_Place]]:
    """Find where each parameter hangs, by its first name: in several modules where it is tied."""
    names = {id(param): name for name, param in model.named_parameters()}
    places: dict[str, list[_Place]] = {name: [] for name in names.values()}
    for module in model.modules():
        for attribute, param in module._parameters.items():  # noqa: SLF001
            if param is not None:
                places[names[id(param)]].append((module, attribute))
    return places


def _chosen(model: nn.Module, include: Sequence[str] | None) -> list[str]:
    """Name the matrices that become int8: what could be low-rank, and is not int8 already."""
    kinds = parameter_kinds(model, "apollo")
    names = [
        name
        for name, param in model.named_parameters()
        if kinds[id(param)] == "low_rank" and not isinstance(param, Int8Weight)
    ]
    if include is None:
        return names
    used = {pattern for pattern in include if any(fnmatchcase(name, pattern) for name in names)}
    require_all_used(include, used, "matrix")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in include)]


def _once(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Give parameters and persistent buffers, each once, under its first name."""
    seen: set[int] = set()
    for name, value in model.state_dict(keep_vars=True).items():
        if isinstance(value, Tensor) and id(value) not in seen:
            seen.add(id(value))
            yield name, value.detach()
