"""Which keys of a row its shape reads, and which are columns that a data set has beside them.

The one idea: an id or a source changes nothing and may stand there, told in the report; a key that was
meant to change what is learnt may not. Such are misspelt keys, which are nearly the name of one that
the row lacks, and those of `_MEANT`, by which other formats say more than this shape can.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from core.data.fault import Refusal, Unread
from core.data.report import Shape
from core.data.rows import ChatRow, PromptCompletionRow
from core.data.shapes.chat import AlpacaRow, ShareGptRow
from core.data.shapes.preference import PREFERENCE_KEYS, ChosenRejectedRow
from core.data.shapes.text import TextRow
from core.data.shapes.tokens import TokensRow

MAX_COLUMNS = 256
_ALIKE = 0.82
"""Above it is what one slip of the finger makes of a name of five letters; prompt_id is below."""
_LONGEST_NAME = 60

_OWN: Mapping[Shape, frozenset[str]] = {
    "chat": frozenset(ChatRow.model_fields),
    "prompt_completion": frozenset(PromptCompletionRow.model_fields),
    "alpaca": frozenset(AlpacaRow.model_fields),
    "sharegpt": frozenset(ShareGptRow.model_fields),
    "text": frozenset(TextRow.model_fields),
    "preference": PREFERENCE_KEYS,
    "chosen_rejected": frozenset(ChosenRejectedRow.model_fields),
    "tokens": frozenset(TokensRow.model_fields),
}
"""rft has no entry: its keys are free, and all are read."""
OWN_KEYS = frozenset().union(*_OWN.values())
"""What any shape reads, rft's own keys aside."""
_MEANT = frozenset({"history", "system", "system_prompt", "tools", "weight"})
_MEANT_BESIDE_TOKENS = ("_ids", "labels", "mask", "masks", "weights")


@dataclass(frozen=True, slots=True)
class Columns:
    """A row as its shape reads it, and the keys that it does not; `hints` mend those that are refused."""

    read: dict[str, Any]
    ignored: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)


def columns_of(shape: Shape, row: dict[str, Any]) -> Columns:
    """Take from a row the columns that may be ignored.

    Raises Refusal where there are too many, or where one that is read has a value that cannot be had.
    Keys that may not are left in, for the shape to refuse at their place.
    """
    own = _OWN.get(shape)
    if own is None:
        for value in row.values():
            if isinstance(value, Unread):
                raise value.refusal
        return Columns(row)
    if row.keys() <= own:
        return Columns(row)
    if len(row) > MAX_COLUMNS:
        message = f"the row has more than {MAX_COLUMNS} keys"
        raise Refusal.because("invalid_file_format", message, "Leave out those that are not read.")
    ignored, hints = _sorted_out(shape, tuple(_cut(key) for key in row))
    kept = {key: value for key, value in row.items() if key in own or _cut(key) in hints}
    return Columns(kept, ignored, hints)


def meant_as(key: str, names: Iterable[str]) -> str | None:
    """The name of which `key` is a misspelling, or None."""
    if len(key) > _LONGEST_NAME:
        return None
    plain = key.casefold().replace("-", "_").strip(" _")
    return next(iter(get_close_matches(plain, sorted(names), n=1, cutoff=_ALIKE)), None)


@lru_cache(maxsize=256)
def _sorted_out(shape: Shape, keys: tuple[str, ...]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Which of the keys may be ignored, and for each that may not what to do."""
    hints = {}
    for key in keys:
        if key not in _OWN[shape] and (hint := _hint(shape, key, frozenset(keys))):
            hints[key] = hint
    ignored = tuple(key for key in keys if key not in _OWN[shape] and key not in hints)
    return ignored, hints


def _hint(shape: Shape, key: str, keys: frozenset[str]) -> str | None:
    meant = frozenset() if shape in ("text", "tokens") else _MEANT
    if key in meant or (shape == "tokens" and key.endswith(_MEANT_BESIDE_TOKENS)):
        return "Rows of this shape cannot say this; remove the key, or use a shape that can."
    name = meant_as(key, (_OWN[shape] | meant) - keys)
    return f"Did you mean '{name}'? Else give the key another name." if name else None


def _cut(key: str) -> str:
    # What is remembered of a hostile row stays small.
    return key[: _LONGEST_NAME + 1]
