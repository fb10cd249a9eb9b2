"""Float64 all the way: a model's own casts to float32 become casts to float64.

Many families compute norms, softmax or recurrent states in float32 whatever their weights are. Two
exact ways to the same gradient then differ by float32's rounding, which hides small mistakes and
looks like one. With the casts widened, what still differs is a mistake.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Widened(TorchDispatchMode):
    """Inside the block every operation that is asked for float32 gives float64, backward too."""

    def __enter__(self) -> Self:
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(self._default)

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*tree_map(_wide, args), **tree_map(_wide, kwargs or {}))


def _wide(x: Any) -> Any:
    return torch.float64 if x is torch.float32 else x
