"""Where the states that a layer keeps for its backward pass lie meanwhile.

What is kept is always a tensor, so autograd holds it and lets go of it as of any saved tensor:
where the layer ran, in pinned memory of the host, or a private mapping of a file.
"""

import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from core.streambp.errors import StoreError

Fetch = Callable[[], list[Tensor]]  # waits, and gives the tensors where the layer runs


class Store(Protocol):
    """Takes tensors away and brings them back, bit for bit.

    `ahead` says whether it pays to begin bringing a layer's tensors while another one works.
    """

    ahead: bool

    def put(self, x: Tensor) -> Tensor:
        """Give what is to be kept in the place of `x`."""
        ...

    def fetch(self, kept: Sequence[Tensor]) -> Fetch:
        """Begin to bring tensors back."""
        ...


class DeviceStore:
    """Leaves everything where it is."""

    ahead = False

    def put(self, x: Tensor) -> Tensor:
        """As Store.put."""
        return x

    def fetch(self, kept: Sequence[Tensor]) -> Fetch:
        """As Store.fetch."""
        return lambda: list(kept)


class HostStore:
    """Pinned memory of the host, copied on a stream of its own in both directions."""

    ahead = True

    def __init__(self, device: torch.device) -> None:
        self._device, self._accelerator = device, torch.get_device_module(device)
        self._stream = self._accelerator.Stream()

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self  # a copy of a model copies on the same stream

    def put(self, x: Tensor) -> Tensor:
        """As Store.put; the copy may still be under way."""
        self._stream.wait_stream(self._accelerator.current_stream())
        with self._accelerator.stream(self._stream):
            pinned = self._device.type != "cpu"
            kept = torch.empty(x.shape, dtype=x.dtype, device="cpu", pin_memory=pinned)
            kept.copy_(x, non_blocking=True)
        self._in_use(x, self._stream)
        return kept

    def fetch(self, kept: Sequence[Tensor]) -> Fetch:
        """As Store.fetch."""
        with self._accelerator.stream(self._stream):
            brought = [x.to(self._device, non_blocking=True) for x in kept]

        def wait() -> list[Tensor]:
            current = self._accelerator.current_stream()
            current.wait_stream(self._stream)
            for x in brought:
                self._in_use(x, current)
            return brought

        return wait

    def _in_use(self, x: Tensor, stream: Any) -> None:
        if self._device.type != "cpu":  # memory there is not handed out by streams
            x.record_stream(stream)


class DiskStore:
    """Files in a folder, mapped into memory page by page as they are read.

    A file loses its name as soon as it is mapped: its space is given back when the tensor goes,
    and also when the process is killed.
    """

    ahead = False

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._folder, self._device = folder, device

    def put(self, x: Tensor) -> Tensor:
        """As Store.put; StoreError where the folder is full, gone or not to be written to."""
        if not x.numel():
            return x
        try:
            return self._written(x)
        except OSError as error:
            raise StoreError(
                "folder",
                str(self._folder),
                f"a layer's states cannot be written there ({error.strerror}): free space or store"
                " them elsewhere",
            ) from error

    def _written(self, x: Tensor) -> Tensor:
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="streambp-") as file:
            file.write(x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
            file.flush()
            mapped = torch.from_file(file.name, shared=False, size=x.numel(), dtype=x.dtype)
        return mapped.view(x.shape)

    def fetch(self, kept: Sequence[Tensor]) -> Fetch:
        """As Store.fetch."""
        return lambda: [x.to(self._device) for x in kept]


class Queue:
    """Which call of a layer came before another: its states are fetched one layer ahead."""

    def __init__(self) -> None:
        self._last: weakref.ref[Any] | None = None

    def __deepcopy__(self, _memo: dict[int, Any]) -> "Queue":
        return Queue()

    def after(self, call: object) -> "weakref.ref[Any] | None":
        """Put `call` last and give the one before it."""
        before, self._last = self._last, weakref.ref(call)
        return before
