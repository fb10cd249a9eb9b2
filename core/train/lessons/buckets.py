"""A mean loss, and the same by position: whether a long context helps, or the model gets lost in it.

Positions are counted within a token's own document: 0-4k, 4-16k, 16-64k, and so on by factors of four.
"""

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor

FIRST_EDGE, FACTOR = 4096, 4


class PositionBuckets:
    """Sums of token losses by position; add tables, then read the means."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}

    def add(self, loss_BT: Tensor, weight_BT: Tensor, position_BT: Tensor) -> None:
        """Add a table of losses that count by their weights."""
        loss_BT, weight_BT = loss_BT.double(), weight_BT.double()
        bucket_BT = bucket_of(position_BT.to(loss_BT.device))
        for bucket in bucket_BT[weight_BT > 0].unique().tolist():
            chosen_BT = weight_BT * (bucket_BT == bucket)
            loss, weight = self._sums.get(bucket, (0.0, 0.0))
            loss += float((loss_BT * chosen_BT).sum())
            self._sums[bucket] = loss, weight + float(chosen_BT.sum())

    @classmethod
    def merged(cls, others: Iterable[Self]) -> Self:
        """The sums of several together."""
        merged = cls()
        for other in others:
            for bucket, (loss, weight) in other._sums.items():  # noqa: SLF001 - its own class
                here = merged._sums.get(bucket, (0.0, 0.0))
                merged._sums[bucket] = here[0] + loss, here[1] + weight
        return merged

    def metrics(self, name: str) -> dict[str, float]:
        """The mean under `name`; beside it, where there are several, each bucket's, as `name_4k-16k`."""
        losses, weights = zip(*self._sums.values(), strict=True)
        found = {name: sum(losses) / sum(weights)}
        if len(self._sums) > 1:
            for bucket, (loss, weight) in sorted(self._sums.items()):
                found[f"{name}_{label(bucket)}"] = loss / weight
        return found


def bucket_of(position: Tensor) -> Tensor:
    """Number the buckets from 0."""
    edges = torch.tensor([FIRST_EDGE * FACTOR**power for power in range(12)])
    return torch.bucketize(position, edges.to(position.device), right=True)


def label(bucket: int) -> str:
    """Name a bucket by its edges, in units of 1,024 tokens."""
    upper = FIRST_EDGE * FACTOR**bucket // 1024
    lower = f"{upper // FACTOR}k" if bucket else "0"
    return f"{lower}-{upper}k"
