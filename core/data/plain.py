"""Rows that are plainly right, told without building them: of chat and of text.

The one idea: most rows of most files are a list of turns in which somebody says a string. Of these a
check has only to know that they are right; whatever is not exactly so is for the strict reader to say.
What is accepted here, that accepts too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from core.data.report import Shape

_CHAT = {"messages"}
_MESSAGE = {"role", "content"}
_ROLES = frozenset({"system", "developer", "user", "assistant"})


def is_plain_chat(row: dict[str, Any]) -> bool:
    """Whether a row has messages of role and text alone, of which the last is the assistant's."""
    if row.keys() != _CHAT:
        return False
    messages = row["messages"]
    if type(messages) is not list or not messages:
        return False
    role = None
    for message in messages:
        if type(message) is not dict or message.keys() != _MESSAGE:
            return False
        role = message["role"]
        if type(role) is not str or role not in _ROLES or type(message["content"]) is not str:
            return False
    return role == "assistant"


def is_plain_text(row: dict[str, Any]) -> bool:
    """Whether a row has a text, not empty, and nothing else."""
    text = row.get("text")
    return len(row) == 1 and type(text) is str and text != ""


PLAIN: Mapping[Shape | None, Callable[[dict[str, Any]], bool]] = {
    "chat": is_plain_chat,
    "text": is_plain_text,
}
"""How to tell, by the shape of the file."""
