"""A weight that lies in memory as int8 codes and scales, and that any code may use as a float one.

To the outside an `Int8Weight` is a tensor of its compute dtype: modules, autograd, optimizers and
code of any model family see a matrix. Whatever operation is called on it gets the dequantised matrix
in its place, so gradients are plain dense tensors, and what comes out is plain. Only what
`int8_ops` lists stays int8: to detach, to clone, to move to another device.

    parameter = nn.Parameter(Int8Weight.quantised(weight))
    with parameter.at_work():  # dequantised once, held until the block ends
        ...

Codes are written by `copy_` alone. Every other change in place is refused, for it would change the
dequantised copy and be lost: an optimizer must know what it updates.
"""

from contextlib import AbstractContextManager
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from core.optim.errors import ParameterError
from core.optim.held import HeldForm
from core.optim.int8_ops import OPERATIONS
from core.optim.noise import Noise
from core.optim.quantise import GROUP, check_group, dequantise, quantise, scales_shape

DTYPES = (torch.float32, torch.bfloat16, torch.float64)
"""What an int8 weight may be to the outside."""


class Int8Weight(Tensor):
    """`codes`, int8 (..., N), times `scales`, float32 (..., ceil(N / group)).

    `held` is its dequantised form while somebody is at work with it. Raises ParameterError for
    parts that do not fit, OptionError for a group that is no power of two.
    """

    codes: Tensor
    scales: Tensor
    group: int
    held: HeldForm

    # Everything is done below, in __torch_dispatch__: torch need not look for anything here.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment] # noqa: SLF001

    def __new__(
        cls, codes: Tensor, scales: Tensor, group: int = GROUP, dtype: torch.dtype = torch.float32
    ) -> Self:
        """Wrap codes and scales; nothing is copied."""
        _check_parts(codes, scales, check_group(group), dtype)
        weight = Tensor._make_wrapper_subclass(  # noqa: SLF001  the documented way
            cls, codes.shape, dtype=dtype, device=codes.device
        )
        weight.codes, weight.scales, weight.group = codes, scales, group
        weight.held = HeldForm()
        return weight

    @classmethod
    def quantised(
        cls,
        value: Tensor,
        group: int = GROUP,
        dtype: torch.dtype | None = None,  # None: the value's own
        noise: Noise | None = None,  # None: to nearest
    ) -> Self:
        """Quantise a matrix, or E fused ones."""
        return cls(*quantise(value, check_group(group), noise), group, dtype or value.dtype)

    def part(self, index: Any) -> Self:
        """Give some of the rows, on the same memory: what is copied into them is copied into this."""
        part = type(self)(self.codes[index], self.scales[index], self.group, self.dtype)
        part.held = self.held
        return part

    def dequantised(self, dtype: torch.dtype | None = None) -> Tensor:
        """Give a plain tensor of the caller's own, in the weight's dtype unless told otherwise."""
        return dequantise(self.codes, self.scales, self.group, dtype or self.dtype)

    def at_work(self) -> AbstractContextManager[None]:
        """While the block runs, make the dequantised form once, at first use, and free it then.

        Blocks may nest and overlap, in any thread: the form is freed when the last one ends.
        A `copy_` in between lets it be made anew.
        """
        return self.held.at_work()

    @property
    def data(self) -> Tensor:
        """An alias without a graph, as of any tensor."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        # torch would put another tensor's memory under the codes and scales that lie here.
        remedy = "write with copy_; a model's compute dtype is chosen when it is quantised"
        raise ParameterError("data", f"{value.dtype} {tuple(value.shape)}", remedy)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Int8Weight({tuple(self.shape)}, group={self.group}, dtype={self.dtype})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple[int, torch.dtype]]:
        """Tell torch which tensors a module's `to` has to move."""
        return ["codes", "scales"], (self.group, self.dtype)

    @classmethod
    def __tensor_unflatten__(
        cls, inner: dict[str, Tensor], context: tuple[int, torch.dtype], *_shape: Any
    ) -> Self:
        """Undo `__tensor_flatten__`."""
        return cls(inner["codes"], inner["scales"], *context)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation."""
        kwargs = kwargs or {}
        own = OPERATIONS.get(func)
        if own is not None and isinstance(args[0], Int8Weight):
            return own(func, *args, **kwargs)
        _refuse_writes(func, args, kwargs)
        return func(*tree_map(_plain, args), **tree_map(_plain, kwargs))


def _check_parts(codes: Tensor, scales: Tensor, group: int, dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        remedy = "compute in float32 or bfloat16 (float64 to compare)"
        raise ParameterError("dtype", dtype, remedy)
    if codes.dtype != torch.int8 or not codes.ndim or not codes.is_contiguous():
        raise ParameterError("codes", f"{codes.dtype} {tuple(codes.shape)}", "give contiguous int8")
    want = scales_shape(codes.shape, group)
    if scales.dtype != torch.float32 or scales.shape != want or not scales.is_contiguous():
        found = f"{scales.dtype} {tuple(scales.shape)}"
        raise ParameterError("scales", found, f"give contiguous float32 of shape {tuple(want)}")


def _plain(x: Any) -> Any:
    """Put the dequantised form in the place of an int8 weight."""
    if not isinstance(x, Int8Weight):
        return x
    # An alias, for autograd may write on what an operation returns, and some return their input.
    return torch.ops.aten.alias.default(x.held.get(x.dequantised))


def _refuse_writes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    schema = func._schema  # noqa: SLF001  has no public reader
    if not schema.is_mutable:
        return
    given = {a.name: value for a, value in zip(schema.arguments, args, strict=False)} | kwargs
    for argument in schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        leaves = tree_leaves(given.get(argument.name)) if written else []
        if any(isinstance(leaf, Int8Weight) for leaf in leaves):
            remedy = "an int8 weight is changed by copy_ alone: train it with Apollo or Scale"
            raise ParameterError("operation", str(func), remedy)
