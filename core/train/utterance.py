"""Tokens into text as they come, up to the first of some stop strings.

Bytes of one character may lie in several tokens, so text is held back while it ends in half a character,
and while it may be the beginning of a stop string.
"""

from collections.abc import Sequence
from typing import Any

HALF = "\ufffd"


class Utterance:
    """The text of one answer; ``stopped`` once it has come to a stop string."""

    def __init__(self, tokenizer: Any, stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._ids: list[int] = []
        self._context = self._read = 0
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        """What can be said by now that could not before."""
        self._ids.append(token)
        return self._said(self._new_text())

    def end(self) -> str:
        """What is still held when no more tokens come."""
        if self.stopped:
            return ""
        said = self._said(self._new_text(half=True))
        return said if self.stopped else said + self._held

    def _new_text(self, *, half: bool = False) -> str:
        """Decoded beside the tokens before, since a tokenizer may drop a space at the beginning."""
        before = self._decoded(self._ids[self._context : self._read])
        now = self._decoded(self._ids[self._context :])
        if (now.endswith(HALF) and not half) or len(now) <= len(before):
            return ""
        self._context, self._read = self._read, len(self._ids)
        return now[len(before) :]

    def _decoded(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _said(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        found = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of ``text`` that ``stop`` begins with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
