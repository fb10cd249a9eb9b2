"""Rows of plain text."""

from typing import Any

from core.data.content import Strict
from core.data.fault import Refusal
from core.data.kinds import Document


class TextRow(Strict):
    """One document."""

    text: str


def parse_text(row: dict[str, Any]) -> Document:
    """The document of a row. Raises Refusal where it is empty, or ValidationError."""
    text = TextRow.model_validate(row).text
    if not text:
        hint = "Remove the row, or give it text."
        raise Refusal.because("no_trainable_tokens", "the text is empty", hint, "/text")
    return Document(text)
