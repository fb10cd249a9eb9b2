"""Chat rows that are plainly right, told without building them.

The one idea: most rows of most files are a list of turns in which somebody says a string. Of these a
check has only to know that they are right; whatever is not exactly so is for the strict reader to say.
What is accepted here, that accepts too.
"""

from typing import Any

_ROW = {"messages"}
_MESSAGE = {"role", "content"}
_ROLES = frozenset({"system", "developer", "user", "assistant"})


def is_plain_chat(row: dict[str, Any]) -> bool:
    """Whether a row has messages of role and text alone, of which the last is the assistant's."""
    if row.keys() != _ROW:
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
