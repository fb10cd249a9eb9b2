"""Which rows step k trains on: a pure function of the seed, so resuming needs only the number k.

The one idea: the order of an epoch is its rows sorted by a keyed hash,

    order(seed, epoch) = sort i = 0..n-1 by BLAKE2b(seed, epoch, i),

which is the same on every machine and every version of Python, uses no global random state and
can be computed for any epoch without walking the ones before it.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import overload


class OrderError(ValueError):
    """A count that the order of steps cannot be made of; names field, value and remedy."""

    def __init__(self, field: str, value: int) -> None:
        super().__init__(f"{field} is {value}; give a whole number of at least 1")
        self.field = field
        self.value = value


def epoch_order(rows: int, seed: int, epoch: int) -> list[int]:
    """Return the numbers 0..rows-1 in the order in which epoch `epoch` (from 0) visits them."""
    key = f"{seed}/{epoch}/".encode()
    return sorted(range(rows), key=lambda i: (blake2b(key + b"%d" % i).digest(), i))


def total_steps(
    rows: int, batch_size: int, n_epochs: int, max_steps: int | None = None, updates: int = 1
) -> int:
    """Count the steps of a run: an epoch's last, shorter batch is one as well; `max_steps` caps.

    A batch serves `updates` steps, one after the other.
    """
    _positive(rows=rows, batch_size=batch_size, n_epochs=n_epochs, updates=updates)
    steps_all = _batches(rows, batch_size) * updates * n_epochs
    if max_steps is None:
        return steps_all
    _positive(max_steps=max_steps)
    return min(max_steps, steps_all)


def steps(
    rows: int,
    batch_size: int,
    n_epochs: int,
    seed: int,
    max_steps: int | None = None,
    updates: int = 1,
) -> "Steps":
    """Return each step's rows, by step number from 0; raises OrderError for counts below 1."""
    total = total_steps(rows, batch_size, n_epochs, max_steps, updates)
    return Steps(rows, batch_size, seed, total, updates)


class Steps(Sequence[list[int]]):
    """A sequence whose item k is the list of row numbers of step k; any k costs the same."""

    def __init__(self, rows: int, batch_size: int, seed: int, total: int, updates: int = 1) -> None:
        self.rows = rows
        self.per_epoch = _batches(rows, batch_size) * updates
        self.updates = updates
        self.batch_size = batch_size
        self.seed = seed
        self.total = total
        # Two epochs are held: the one being trained and, at its end, the one after it.
        self._order = lru_cache(maxsize=2)(self._epoch)

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, step: int) -> list[int]: ...
    @overload
    def __getitem__(self, step: slice) -> list[list[int]]: ...
    def __getitem__(self, step: int | slice) -> list[int] | list[list[int]]:
        if isinstance(step, slice):
            return [self[k] for k in range(*step.indices(self.total))]
        if not -self.total <= step < self.total:
            raise IndexError(f"step {step} of {self.total}")
        epoch, within = divmod(step % self.total, self.per_epoch)
        start = within // self.updates * self.batch_size
        return self._order(epoch)[start : start + self.batch_size]

    def _epoch(self, epoch: int) -> list[int]:
        return epoch_order(self.rows, self.seed, epoch)


def _batches(rows: int, batch_size: int) -> int:
    return -(-rows // batch_size)


def _positive(**counts: int) -> None:
    for field, value in counts.items():
        if value < 1:
            raise OrderError(field, value)
