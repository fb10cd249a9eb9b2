"""What a row means once its shape is forgotten: the five kinds of which objectives learn.

A file may write the same in many shapes (chat, alpaca, ShareGPT, prompt and completion, …); parsing
brings each to one of these, and nothing after it asks for the shape. `core.data.fitness` tells which
shapes an objective can learn from.

    pretrain   Document, Tokens
    sft        ChatRow, Tokens
    dpo        Preference
    grpo       Prompt
"""

from dataclasses import dataclass
from typing import Any

from core.data.rows import ChatRow, Message


@dataclass(frozen=True, slots=True)
class Document:
    """Plain text, of which every token is learnt."""

    text: str


@dataclass(frozen=True, slots=True)
class Preference:
    """Two ways in which a conversation may go on, of which the first is the better.

    ``chosen`` and ``rejected`` are messages of the assistant, or of it and of tools, that follow
    ``prompt``.
    """

    prompt: ChatRow
    chosen: tuple[Message, ...]
    rejected: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation that waits for the assistant, and what graders may know as ``item``."""

    chat: ChatRow
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A row that was tokenised elsewhere; ``trained[t]``: token t is a target, never token 0."""

    input_ids: list[int]
    trained: list[bool]


Kind = ChatRow | Document | Preference | Prompt | Tokens
