"""Rows that were tokenised elsewhere: input_ids, and as in transformers attention_mask and labels.

The one idea: masks say what is padding and what is trained, ids never do (many models pad with their
end-of-sequence token). `labels[t]` is `input_ids[t]` or -100; they are not shifted.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from core.data.content import Strict
from core.data.fault import Refusal
from core.data.kinds import Tokens

NOT_TRAINED = -100
_LARGEST_ID = 2**31 - 1

_Id = Annotated[int, Field(ge=0, le=_LARGEST_ID)]


class TokensRow(Strict):
    """One row of token ids."""

    input_ids: Annotated[list[_Id], Field(min_length=1, fail_fast=True)]
    attention_mask: Annotated[list[Literal[0, 1]], Field(fail_fast=True)] | None = None
    labels: Annotated[list[int], Field(fail_fast=True)] | None = None


def parse_tokens(row: dict[str, Any]) -> Tokens:
    """The ids of a row without padding, and what of them is trained. Raises Refusal or ValidationError."""
    read = TokensRow.model_validate(row)
    for name in ("attention_mask", "labels"):
        _refuse_other_length(name, getattr(read, name), len(read.input_ids))
    start, end = _real(read.attention_mask, len(read.input_ids))
    ids = read.input_ids[start:end]
    trained = [True] * len(ids)
    if read.labels is not None:
        labels = read.labels[start:end]
        _refuse_other_labels(labels, ids, start)
        trained = [label != NOT_TRAINED for label in labels]
    trained[:1] = [False]
    if not any(trained):
        message = "no token is trained (nothing comes before the first, so it cannot be)"
        at = "/input_ids" if read.labels is None else "/labels"
        raise Refusal.because("no_trainable_tokens", message, "Remove the row, or mark tokens.", at)
    return Tokens(ids, trained)


def _refuse_other_length(name: str, values: list[int] | None, length: int) -> None:
    if values is not None and len(values) != length:
        message = f"{len(values)} values to {length} input_ids"
        hint = "Give one value to each id."
        raise Refusal.because("invalid_file_format", message, hint, f"/{name}")


def _real(mask: list[Literal[0, 1]] | None, length: int) -> tuple[int, int]:
    """Where the tokens between the padding begin and end."""
    if mask is None:
        return 0, length
    if 1 not in mask:
        hint = "Remove the row."
        message = "every token is padding"
        raise Refusal.because("no_trainable_tokens", message, hint, "/attention_mask")
    start, end = mask.index(1), length - mask[::-1].index(1)
    if 0 in mask[start:end]:
        at = f"/attention_mask/{mask.index(0, start)}"
        message = "a 0 between tokens; only padding at the ends can be left out"
        raise Refusal.because("invalid_file_format", message, "Make a row of each part.", at)
    return start, end


def _refuse_other_labels(labels: list[int], ids: list[int], start: int) -> None:
    for number, (label, id_) in enumerate(zip(labels, ids, strict=True), start):
        if label not in (NOT_TRAINED, id_):
            message = f"label {label} beside id {id_}"
            hint = f"Labels are the ids themselves, not shifted, or {NOT_TRAINED}."
            raise Refusal.because("invalid_file_format", message, hint, f"/labels/{number}")
