"""Who takes what: by tokens, so that the ranks of a step finish together.

Longest first, each to the rank that has least so far (Graham, *Bounds on multiprocessing timing anomalies*,
1969: at most a third over the best). Every rank computes the same shares from the same lengths.
"""

from collections.abc import Sequence


def shares(lengths: Sequence[int], ranks: int) -> list[list[int]]:
    """The numbers of the things of these ``lengths``, for each rank those that it takes, in their order."""
    taken: list[list[int]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        rank = load.index(min(load))
        taken[rank].append(index)
        load[rank] += lengths[index]
    return [sorted(one) for one in taken]
