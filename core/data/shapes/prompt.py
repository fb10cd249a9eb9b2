"""Rows that wait for an answer, which a grader will judge: OpenAI's reinforcement format.

`messages` and `tools` are the only keys with a meaning; all others are the row's own and reach the
grader as `item`.
"""

from typing import Any

from core.data.fault import Refusal
from core.data.kinds import Prompt
from core.data.rows import ChatRow
from core.data.shapes.chat import PROMPT_ENDS

_RESERVED = ("messages", "tools")


def parse_prompt(row: dict[str, Any]) -> Prompt:
    """The conversation and the item of a row. Raises Refusal or ValidationError."""
    chat = ChatRow.model_validate({key: row[key] for key in _RESERVED if key in row})
    last = chat.messages[-1]
    if last.role not in PROMPT_ENDS:
        at = f"/messages/{len(chat.messages) - 1}/role"
        message = (
            f"the last message is from the {last.role}; in a file of prompts (rft) it must be from "
            "the user or a tool"
        )
        hint = "End the row with what is to be answered, and put a reference answer in a key of its own."
        raise Refusal.because("invalid_file_format", message, hint, at)
    return Prompt(chat, {key: value for key, value in row.items() if key not in _RESERVED})
