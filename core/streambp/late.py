"""The decoder's last module, computed where its answer is used: by the head, tile by tile.

That module is a norm in nearly every family. Run over whole rows it would keep its input, its answer
and what lies between for the backward pass; run over a tile it keeps nothing, and tokens that are
not scored skip it. So while log-probabilities are made the decoder gives what goes *into* it.

Which module it is, is tried like everything else: the one whose answer is the decoder's answer, and
without which the decoder answers with its input.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from core.streambp.inforce import in_force
from core.streambp.swaps import Undo

# Per thread, like the layout in force: the way through a family's own forward.
_late: ContextVar[bool] = ContextVar("streambp_late", default=False)

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def last_module_late() -> AbstractContextManager[None]:
    """While the block runs, a decoder in this thread leaves its last module to the head."""
    return in_force(_late, value=True)


def is_hooked(module: nn.Module) -> bool:
    """Say whether somebody watches the module: then it must run as a whole, and once."""
    return any(getattr(module, name) for name in _HOOKS)


class LateForward:
    """Stands in for the forward of the last module; `forward` is the module's own."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.forward = module, module.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute, or pass the input on."""
        return args[0] if _late.get() else self.forward(*args, **kwargs)


def last_module(decoder: nn.Module, ids_BT: Tensor) -> nn.Module | None:
    """Find the module by two runs over a few tokens; None where there is none that can wait."""
    calls: list[tuple[nn.Module, Any, Any]] = []

    def note(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        calls.append((module, None if kwargs else args, out))

    children = [x for x in decoder.children() if not isinstance(x, nn.ModuleList)]
    handles = [x.register_forward_hook(note, with_kwargs=True) for x in children]
    try:
        whole_BTD = _answer(decoder, ids_BT)
    finally:
        for handle in handles:
            handle.remove()
    if not calls or not calls[-1][1] or not _same(calls[-1][2], whole_BTD):
        return None
    module, (into_BTD, *rest), _ = calls[-1]
    if rest or is_hooked(module) or sum(called is module for called, *_ in calls) > 1:
        return None
    return module if _can_wait(module, decoder, ids_BT, (into_BTD, whole_BTD)) else None


def _same(out: Any, whole_BTD: Tensor) -> bool:
    """Say whether the decoder handed this very answer on, or a view of it."""
    alike = isinstance(out, Tensor) and out.shape == whole_BTD.shape
    return alike and out.data_ptr() == whole_BTD.data_ptr()


def _can_wait(
    module: nn.Module, decoder: nn.Module, ids_BT: Tensor, seen: tuple[Tensor, Tensor]
) -> bool:
    """Say whether it works token by token, and the decoder without it gives its input."""
    into_BTD, whole_BTD = seen
    one_B1D = module(into_BTD[:, 1:2])
    near = torch.finfo(whole_BTD.dtype).eps * 100
    if not torch.allclose(one_B1D, whole_BTD[:, 1:2], rtol=near, atol=near):
        return False
    with Undo() as undo, last_module_late():
        undo.set(module, "forward", LateForward(module))
        return torch.equal(_answer(decoder, ids_BT), into_BTD)


def _answer(decoder: nn.Module, ids_BT: Tensor) -> Tensor:
    answer: Tensor = decoder(input_ids=ids_BT, use_cache=False).last_hidden_state
    return answer
