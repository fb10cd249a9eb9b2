"""The operations that an int8 weight does itself, without being dequantised as a whole.

Each takes the operation that was called, the weight, and the rest of its arguments.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from core.optim.quantise import dequantise, quantise

if TYPE_CHECKING:
    from core.optim.int8 import Int8Weight

_aten = torch.ops.aten


def _wrap(weight: "Int8Weight", codes: Tensor, scales: Tensor) -> "Int8Weight":
    return type(weight)(codes, scales, weight.group, weight.dtype)


def _alias(_func: Any, weight: "Int8Weight") -> Tensor:
    alias = _wrap(weight, weight.codes, weight.scales)
    alias.held = weight.held
    return alias


def _clone(_func: Any, weight: "Int8Weight", **_layout: Any) -> Tensor:
    return _wrap(weight, weight.codes.clone(), weight.scales.clone())


def _to_copy(_func: Any, weight: "Int8Weight", **given: Any) -> Tensor:
    """Another device keeps int8, another dtype does not."""
    dtype, device = given.get("dtype") or weight.dtype, given.get("device") or weight.device
    wait = bool(given.get("non_blocking"))
    if dtype != weight.dtype:
        return weight.dequantised(dtype).to(device, non_blocking=wait)
    parts = (weight.codes, weight.scales)
    return _wrap(weight, *(x.to(device, non_blocking=wait, copy=True) for x in parts))


def _copy_(_func: Any, weight: "Int8Weight", source: Any, non_blocking: Any = False) -> Tensor:  # noqa: FBT002 - torch passes it by place
    """Take over codes and scales, or quantise to nearest what comes in another form."""
    alike = isinstance(source, type(weight))
    if not alike or source.group != weight.group:
        value = source.dequantised(torch.float32) if alike else source
        value = value.to(weight.device).expand(weight.shape)
        source = _wrap(weight, *quantise(value, weight.group))
    weight.codes.copy_(source.codes, non_blocking=non_blocking)
    weight.scales.copy_(source.scales, non_blocking=non_blocking)
    weight.held.forget()
    return weight


def _blank(func: Any, weight: "Int8Weight", *args: Any, **kwargs: Any) -> Tensor:
    """Make a plain tensor by shape, dtype and device alone."""
    stand_in = torch.empty((), dtype=weight.dtype, device=weight.device).expand(weight.shape)
    if "memory_format" in {argument.name for argument in func._schema.arguments}:  # noqa: SLF001
        kwargs["memory_format"] = torch.contiguous_format
    return func(stand_in, *args, **kwargs)


def _embedding(func: Any, weight: "Int8Weight", ids: Tensor, *args: Any) -> Tensor:
    """Dequantise the rows that are looked up."""
    if weight.held.form is not None:
        return func(weight.held.get(weight.dequantised), ids, *args)
    return dequantise(weight.codes[ids], weight.scales[ids], weight.group, weight.dtype)


OPERATIONS: dict[Any, Callable[..., Any]] = {
    _aten.alias.default: _alias,
    _aten.detach.default: _alias,
    _aten.clone.default: _clone,
    _aten._to_copy.default: _to_copy,  # noqa: SLF001 - the operator's name
    _aten.copy_.default: _copy_,
    _aten.embedding.default: _embedding,
    _aten.zeros_like.default: _blank,
    _aten.ones_like.default: _blank,
    _aten.empty_like.default: _blank,
    _aten.full_like.default: _blank,
    _aten.rand_like.default: _blank,
    _aten.randn_like.default: _blank,
    _aten.new_empty.default: _blank,
    _aten.new_zeros.default: _blank,
    _aten.new_ones.default: _blank,
    _aten.new_full.default: _blank,
}
"""By torch's own operator; all others run on the dequantised form."""
