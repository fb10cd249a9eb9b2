"""A tensor that is made at first use, shared while anybody is at work with it, and freed then."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_lock = threading.Lock()  # held for bookkeeping, never while anything is computed


class HeldForm:
    """The computing form of one weight and of its aliases."""

    __slots__ = ("form", "users")

    def __init__(self) -> None:
        self.users = 0
        self.form: Tensor | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Hold the form while the block runs; blocks nest and overlap, in any thread."""
        with _lock:
            self.users += 1
        try:
            yield
        finally:
            with _lock:
                self.users -= 1
                if not self.users:
                    self.form = None

    def get(self, make: Callable[[], Tensor]) -> Tensor:
        """Give the form, made now unless it is held."""
        form = self.form
        # What was made in inference mode is of no use to autograd.
        if form is None or (form.is_inference() and not torch.is_inference_mode_enabled()):
            form = make()
            with _lock:
                if self.users:
                    self.form = form
        return form

    def forget(self) -> None:
        """Let the form be made anew: what it was made from has changed."""
        with _lock:
            self.form = None

    def __deepcopy__(self, memo: Any) -> "HeldForm":
        return HeldForm()  # nobody is at work with a copy
