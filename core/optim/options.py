"""The optimizer's hyperparameters: their ranges, and the refusal of what nothing would read.

A parameter group is a dictionary; a misspelt key in it would be ignored without a word, and a value
outside its range would train nonsense for hours. Both are refused before the first step.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from core.optim.errors import OptionError

APOLLO: Final = {"rank": 256, "scale": 1.0, "scaling": "channel"}
"""APOLLO as in arXiv 2412.05270: one scaling factor per channel of the longer side."""

APOLLO_MINI: Final = {"rank": 1, "scale": 128.0, "scaling": "tensor"}
"""APOLLO-Mini: rank 1, one scaling factor per tensor."""


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_betas(value: object) -> bool:
    if not isinstance(value, tuple | list):
        return False
    ranges = [_is_number(beta) and 0.0 <= beta < 1.0 for beta in value]
    return ranges == [True, True]


def _is_limit(value: object) -> bool:
    return value is None or (_is_number(value) and value >= 1.0)  # type: ignore[operator]


_RULES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "lr": (lambda v: _is_number(v) and v >= 0.0, "use a finite learning rate of at least 0"),
    "rank": (
        lambda v: v is None or _is_count(v, 1),
        "use a whole number of at least 1, or None for AdamW",
    ),
    "scale": (lambda v: _is_number(v) and v > 0.0, "use a finite number above 0"),
    "scaling": (lambda v: v in ("channel", "tensor"), "use 'channel' or 'tensor'"),
    "projection": (
        lambda v: v in ("gaussian", "rademacher", "svd"),
        "use 'gaussian', 'rademacher' or 'svd'",
    ),
    "update_proj_gap": (lambda v: _is_count(v, 1), "use a whole number of steps, at least 1"),
    "betas": (_are_betas, "use two numbers from 0 up to but not including 1"),
    "eps": (lambda v: _is_number(v) and v > 0.0, "use a small number above 0"),
    "weight_decay": (lambda v: _is_number(v) and v >= 0.0, "use a finite number of at least 0"),
    "input_axis": (
        lambda v: v is None or (_is_count(v, -2) and v < 0),
        "use -1 or -2, the axis that runs over a matrix's inputs, or None for AdamW",
    ),
    "momentum": (
        lambda v: v is None or (_is_number(v) and 0.0 <= v < 1.0),
        "use a number from 0 up to but not including 1, or None for no momentum",
    ),
    "decay_after_update": (lambda v: isinstance(v, bool), "use True or False"),
    "bias_correction": (lambda v: isinstance(v, bool), "use True or False"),
    "growth_limit": (_is_limit, "use a factor of at least 1, or None for no limiter"),
    "stochastic_rounding": (lambda v: isinstance(v, bool), "use True or False"),
    "seed": (
        lambda v: _is_count(v, 0) and v < 2**63,
        "use a whole number from 0 to 2**63 - 1",
    ),
}

_BOOKKEEPING: Final = frozenset({"params", "param_names", "kind", "initial_lr"})


def check_options(options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `OptionError` for the first option outside its range, or not among the `known` ones."""
    known = frozenset(known)
    for field, value in options.items():
        if field in _BOOKKEEPING:
            continue
        if field not in known:
            raise OptionError(field, value, f"unknown option; known are {_listing(known)}")
        accepts, remedy = _RULES[field]
        if not accepts(value):
            raise OptionError(field, value, remedy)


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
