"""A digest of all that a run goes on from: weights, the optimizer's tensors, counters, the lesson's state.

The hashes of a checkpoint's files say that the bytes came back; this one, computed from what was loaded,
says that they became the same state: no tensor under another's name, none cast, none left out.

    sha256( path, kind, bytes of every leaf, in the order of their paths )

It costs one reading of the state by SHA-256, and on a GPU its way to the host, a tensor at a time.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from core.optim import exact_state
from core.ranks import whole
from core.spec.adapter import FullSpec
from core.spec.trainer import TrainerSpec

Leaf = Tensor | float | str | None


def state_digest(weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> str:
    """Sha256 in hex, whatever the order of keys, the device, and whether sequences are lists or tuples."""
    digest = hashlib.sha256()
    leaves = _leaves({"model": weights, "state": state}, "")
    for path, leaf in sorted(leaves, key=itemgetter(0)):
        head, content = _described(leaf)
        digest.update(f"{path}\0{head}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def trained_weights(model: PreTrainedModel, trainer: TrainerSpec) -> dict[str, Tensor]:
    """The model's own tensors that a run may change: beside an adapter its matrices, else all, as held.

    Those of a model that is spread over ranks are put together on the host, one at a time; all must ask.
    """
    held = {name: _here(value) for name, value in exact_state(model).items()}
    if isinstance(trainer.adapter, FullSpec):
        return held
    trained = {name for name, param in model.named_parameters() if param.requires_grad}
    return {name: value for name, value in held.items() if name in trained}


def _here(value: Tensor) -> Tensor:
    return whole(value).cpu() if isinstance(value, DTensor) else value


def tensor_bytes(state: Any) -> int:
    """What the tensors in a tree of state take."""
    return sum(leaf.nbytes for _, leaf in _leaves(state, "") if isinstance(leaf, Tensor))


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Leaf]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}/{key}")
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        yield f"{path}#", len(tree)
        for number, value in enumerate(tree):
            yield from _leaves(value, f"{path}/{number:09d}")
    else:
        yield path, tree


def _described(leaf: Leaf) -> tuple[str, Any]:
    if not isinstance(leaf, Tensor):
        return type(leaf).__name__, repr(leaf).encode()
    flat = leaf.detach().reshape(-1).cpu().contiguous()
    return f"{leaf.dtype} {tuple(leaf.shape)}", flat.view(torch.uint8).numpy().data
