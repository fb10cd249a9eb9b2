"""The ranks of a run: who else trains it, who takes which rows, and who holds which rows of a weight.

The one idea: everything above asks for sums, never for ranks. A run of one process asks `ALONE`, whose sums
are what it was given, so there is one way through lessons, optimizer and checkpoints for any number of ranks.
torch's `fully_shard` and `replicate` do the gathering and reducing of weights.
"""

from core.ranks.crew import ALONE, Crew
from core.ranks.portion import Portion, portion_of, whole, without_bytes
from core.ranks.shares import shares
from core.ranks.spread import Strategy, as_forward, as_stock, gathered, let_go, spread, syncing

__all__ = [
    "ALONE",
    "Crew",
    "Portion",
    "Strategy",
    "as_forward",
    "as_stock",
    "gathered",
    "let_go",
    "portion_of",
    "shares",
    "spread",
    "syncing",
    "whole",
    "without_bytes",
]
