"""The processes of a run, and what they tell each other beside gradients: a few numbers a step.

Control goes over gloo, through the host, also where gradients go over nccl: it never waits for a device's
stream, and Python objects need no device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")

PATIENCE = timedelta(minutes=30)
"""How long a rank waits for the others in a collective: longer than the slowest step, not for ever."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Rank ``rank`` of ``size``; of a ``size`` of 1 nothing is ever asked of torch's distributed."""

    rank: int = 0
    size: int = 1

    @classmethod
    def joined(cls) -> "Crew":
        """This process's place among those that torch's launcher started, once all are there."""
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=PATIENCE)
        return cls(distributed.get_rank(), distributed.get_world_size())

    def leave(self) -> None:
        """Close the connections to the others, once all are here: a launcher ends those that stay behind."""
        if self.size > 1:
            self.each(None)
            distributed.destroy_process_group()

    @property
    def leads(self) -> bool:
        """Whether this rank writes what the run tells and keeps."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:  # noqa: FBT001 - the one thing that is asked
        """Whether any rank says so: every rank is given the same answer."""
        return any(self.each(flag))

    def sums(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Each figure summed over the ranks that have it, in their order."""
        told = self.each(dict(figures))
        if len(told) == 1:
            return told[0]
        names = dict.fromkeys(name for one in told for name in one)
        return {name: sum(one.get(name, 0.0) for one in told) for name in names}

    def each(self, value: T) -> list[T]:
        """What every rank gave, in their order."""
        if self.size == 1:
            return [value]
        told: list[Any] = [None] * self.size
        distributed.all_gather_object(told, value)
        return told

    def told(self, value: T | None) -> T:
        """What the leader gave; what others give is not looked at."""
        if self.size == 1:
            assert value is not None
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        assert box[0] is not None, "the leader gave it"
        return box[0]

    def total(self, sums: Tensor) -> Tensor:
        """Add up, in place, a tensor on the host."""
        if self.size > 1:
            distributed.all_reduce(sums)
        return sums

    def dealt(self, shares: Sequence[Sequence[T]]) -> Sequence[T]:
        """This rank's of the shares."""
        return shares[self.rank]


ALONE = Crew()
