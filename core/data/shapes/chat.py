"""Rows that hold one conversation to learn from: chat, prompt and completion, alpaca, ShareGPT.

The one idea: all become one ChatRow, whose assistant messages are what is learnt; a fault keeps the
pointer of the form in which the row was written.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from core.data.content import Strict
from core.data.fault import Refusal
from core.data.report import Shape, shown
from core.data.rows import (
    AssistantMessage,
    ChatRow,
    Message,
    PromptCompletionRow,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

PROMPT_ENDS = ("user", "tool", "function")
"""Who may speak last where the assistant's answer is still to come."""

_SPEAKERS = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "observation": "tool",
}


class AlpacaRow(Strict):
    """An instruction, what it is about, and the answer."""

    instruction: str
    input: str | None = None
    output: str


class Turn(Strict):
    """Who says what in a ShareGPT row."""

    from_: Annotated[str, StringConstraints(min_length=1), Field(alias="from")]
    value: str


class ShareGptRow(Strict):
    """A conversation as ShareGPT wrote it down."""

    conversations: Annotated[list[Turn], Field(min_length=1, fail_fast=True)]
    system: str | None = None


def messages_shape(
    row: Mapping[str, object], first: Shape | None, ignored: Container[str] = ()
) -> Shape:
    """Whether a row with `messages` is an example (chat) or waits for an answer (rft).

    Who speaks last tells. In a file that began with the other of the two, a row that may be meant
    as one of those is read as one, so that its fault is named and not its shape. `ignored` are columns
    that rows of chat before it had too.
    """
    waits = _last_role(row.get("messages")) in PROMPT_ENDS
    own = ChatRow.model_fields
    free_keys = any(key not in own and key not in ignored for key in row)
    if first == "chat":
        return "rft" if waits and free_keys else "chat"
    if first == "rft":
        return "rft" if waits or free_keys else "chat"
    return "rft" if waits else "chat"


def parse_chat(row: dict[str, Any]) -> ChatRow:
    """A row of OpenAI's chat format. Raises Refusal or ValidationError."""
    chat = ChatRow.model_validate(row)
    refuse_unanswered(chat.messages, "/messages", "role")
    return chat


def parse_prompt_completion(row: dict[str, Any]) -> ChatRow:
    """A question and its answer. Raises ValidationError."""
    return PromptCompletionRow.model_validate(row).to_chat()


def parse_alpaca(row: dict[str, Any]) -> ChatRow:
    """The instruction and, after a blank line, its input are the question. Raises ValidationError."""
    read = AlpacaRow.model_validate(row)
    question = "\n\n".join(filter(None, [read.instruction, read.input]))
    return PromptCompletionRow(prompt=question, completion=read.output).to_chat()


def parse_sharegpt(row: dict[str, Any]) -> ChatRow:
    """A ShareGPT conversation; `system` stands above it. Raises Refusal or ValidationError."""
    read = ShareGptRow.model_validate(row)
    messages = [_message(n, turn) for n, turn in enumerate(read.conversations)]
    refuse_unanswered(messages, "/conversations", "from")
    if read.system:
        messages.insert(0, SystemMessage(role="system", content=read.system))
    return ChatRow(messages=messages)


def refuse_unanswered(messages: Sequence[Message], at: str, role_key: str) -> None:
    """Raise Refusal unless something is trained and the assistant speaks last.

    `at` is the pointer of the messages, and `role_key` the name of what says who speaks.
    """
    assistants = [m for m in messages if isinstance(m, AssistantMessage)]
    if not any(message.trained for message in assistants):
        message = "every assistant message has weight 0" if assistants else "no assistant message"
        hint = "Add an assistant message, or give one the weight 1."
        raise Refusal.because("no_trainable_tokens", message, hint, at)
    last = messages[-1]
    if not isinstance(last, AssistantMessage):
        message = f"the last message is from the {last.role}; it must be from the assistant"
        hint = "End the row with the answer to be learned."
        place = f"{at}/{len(messages) - 1}/{role_key}"
        raise Refusal.because("invalid_file_format", message, hint, place)


def _last_role(messages: object) -> object:
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last.get("role") if isinstance(last, dict) else None


def _message(number: int, turn: Turn) -> Message:
    match _SPEAKERS.get(turn.from_):
        case "system":
            return SystemMessage(role="system", content=turn.value)
        case "user":
            return UserMessage(role="user", content=turn.value)
        case "assistant":
            return AssistantMessage(role="assistant", content=turn.value)
        case "tool":
            # The format has no ids of calls.
            return ToolMessage(role="tool", content=turn.value, tool_call_id="")
        case _:
            message = f"nobody is called '{shown(turn.from_)}'"
            hint = f"Use one of: {', '.join(_SPEAKERS)}."
            at = f"/conversations/{number}/from"
            raise Refusal.because("invalid_file_format", message, hint, at)
