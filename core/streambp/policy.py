"""What a streamed layer keeps from the forward to the backward pass, and where.

`hidden`: its input. `hidden+attention`: also the attention output and log-sum-exp of every chunk,
so that the part that is quadratic in the tokens is computed once. `hidden+kv`: also its keys and
values, so that no pass has to make them again. Less memory is more computation; gradients are the
same. Attention that takes a family's own function has no log-sum-exp, and is computed again.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import torch

from core.streambp.errors import PolicyError, at_least_one
from core.streambp.store import DeviceStore, DiskStore, HostStore, Queue, Store

Keep = Literal["hidden", "hidden+attention", "hidden+kv"]
StoreName = Literal["device", "cpu", "disk"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Chunk length, what is kept, where; `remark` tells where that differs from what was asked."""

    chunk_tokens: int
    keep: Keep = "hidden"
    store: Store = field(default_factory=DeviceStore)
    remark: str = ""
    queue: Queue = field(default_factory=Queue)


def policy(
    chunk_tokens: int, keep: Keep, store: StoreName, folder: Path | str | None, device: torch.device
) -> Policy:
    """Check the words of a caller; ChunkLengthError or PolicyError."""
    at_least_one("chunk_tokens", chunk_tokens)
    for name, value, words in (("keep", keep, Keep), ("store", store, StoreName)):
        if value not in get_args(words):
            raise PolicyError(name, value, f"give one of {', '.join(get_args(words))}")
    if (store == "disk") != (folder is not None):
        raise PolicyError("folder", folder, "give one with store = disk, and only then")
    if folder is not None and not isinstance(folder, (str, os.PathLike)):
        raise PolicyError("folder", folder, "give a path")
    if folder is not None:
        return Policy(chunk_tokens, keep, DiskStore(_writable(Path(folder)), device))
    if store == "cpu" and device.type == "cpu":
        remark = "store = cpu is store = device here: the model is on the CPU"
        return Policy(chunk_tokens, keep, DeviceStore(), remark)
    return Policy(chunk_tokens, keep, DeviceStore() if store == "device" else HostStore(device))


def _writable(folder: Path) -> Path:
    # Written to, not looked at: the rights of a file system are no promise that it takes a file.
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="streambp-"):
            return folder
    except OSError as error:
        raise PolicyError(
            "folder",
            str(folder),
            f"give a folder that exists and can be written to ({error.strerror})",
        ) from error
