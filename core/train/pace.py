"""How long the rest of a run takes, from the lengths of the rows that are left: long rows take more a token.

    seconds left = sum over buckets of tokens left x seconds a token      a bucket: rows of 2^k to 2^(k+1) - 1

A step's seconds are shared out among its rows by what the buckets are known to take so far. A bucket of which
no row was seen yet lies on the line through its neighbours: attention's part of a token's time grows with the
row.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from core.data.order import Steps


class Pace:
    """Tokens that are ``left`` by bucket, and what tokens of each bucket took."""

    def __init__(self, left: Counter[int]) -> None:
        self._left = left
        self._tokens: Counter[int] = Counter()
        self._seconds: dict[int, float] = {}

    def see(self, lengths: Iterable[int], seconds: float) -> None:
        """A step over rows of these lengths has taken so long, and is left no more."""
        tokens = tokens_by_bucket(lengths)
        self._left -= tokens  # keeps what is above zero
        weights = {bucket: count * (self._rate(bucket) or 1.0) for bucket, count in tokens.items()}
        whole = sum(weights.values())
        for bucket, weight in weights.items():
            share = seconds * weight / whole
            self._seconds[bucket] = self._seconds.get(bucket, 0.0) + share
        self._tokens += tokens

    @property
    def seconds_left(self) -> float:
        """0 where no step was seen yet."""
        return sum(tokens * self._rate(bucket) for bucket, tokens in self._left.items())

    def _rate(self, bucket: int) -> float:
        """Seconds a token; 0 where nothing is known."""
        known = sorted(self._seconds)
        if not known:
            return 0.0
        if bucket in self._seconds or len(known) == 1:
            return self._mean(bucket if bucket in self._seconds else known[0])
        at = min(max(bisect_left(known, bucket), 1), len(known) - 1)
        low, high = known[at - 1], known[at]
        slope = (self._mean(high) - self._mean(low)) / (2**high - 2**low)
        nearest = low if bucket < low else high
        return max(self._mean(nearest) + slope * (2**bucket - 2**nearest), 0.0)

    def _mean(self, bucket: int) -> float:
        return self._seconds[bucket] / self._tokens[bucket]


def tokens_by_bucket(lengths: Iterable[int]) -> Counter[int]:
    """Tokens of the rows in each bucket; one is numbered by the binary digits of its lengths."""
    tokens: Counter[int] = Counter()
    for length in lengths:
        tokens[length.bit_length()] += length
    return tokens


def tokens_left(lengths: Sequence[int], steps: Steps, done: int) -> Counter[int]:
    """Tokens of the steps after the first ``done``, for rows of these lengths.

    The epoch that is under way is counted row by row; later ones have every row once, whatever their order;
    of one that is cut short, every row's share.
    """
    end = min(-(-done // steps.per_epoch) * steps.per_epoch, steps.total)
    left = tokens_by_bucket(lengths[row] for step in range(done, end) for row in steps[step])
    epochs = (steps.total - end) / steps.per_epoch
    for bucket, tokens in tokens_by_bucket(lengths).items():
        left[bucket] += round(tokens * steps.updates * epochs)
    return +left
