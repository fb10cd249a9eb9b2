"""A row in the words that chat templates understand.

The one idea: templates are written for plain dictionaries with the roles system, user, assistant
and tool, text content and parsed tool arguments; what the public format allows beside that is
brought to it here, once, and nowhere else.
"""

from collections.abc import Sequence
from typing import Any, assert_never

from pydantic_core import from_json

from core.data.content import RefusalPart, TextPart
from core.data.rows import (
    AssistantMessage,
    ChatRow,
    FunctionCall,
    FunctionMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)


def template_messages(messages: Sequence[Message], template: str) -> list[dict[str, Any]]:
    """Return the messages as a template takes them; `template` is its text.

    The role developer is kept only where the template speaks of it, else it is system. Typed
    parts are joined, null content is empty, a refusal is what the assistant says.
    """
    developer = "developer" if "developer" in template else "system"
    return [_template_message(message, developer) for message in messages]


def template_tools(row: ChatRow) -> list[dict[str, Any]] | None:
    """Return the tools of a row, deprecated `functions` among them; None where it has none."""
    tools = [tool.model_dump(exclude_none=True) for tool in row.tools or []]
    tools += [
        {"type": "function", "function": function.model_dump(exclude_none=True)}
        for function in row.functions or []
    ]
    return tools or None


def _template_message(message: Message, developer: str) -> dict[str, Any]:
    match message:
        case SystemMessage():
            role = developer if message.role == "developer" else "system"
            turn = {"role": role, "content": _text(message.content)}
        case UserMessage():
            turn = {"role": "user", "content": _text(message.content)}
        case AssistantMessage():
            turn = _assistant(message)
        case ToolMessage():
            content = _text(message.content)
            turn = {"role": "tool", "content": content, "tool_call_id": message.tool_call_id}
        case FunctionMessage():
            turn = {"role": "tool", "content": message.content or ""}
        case _:
            assert_never(message)
    if message.name is not None:
        turn["name"] = message.name
    return turn


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    said = message.content if message.content is not None else message.refusal
    turn: dict[str, Any] = {"role": "assistant", "content": _text(said or "")}
    calls = [
        {"id": call.id, "type": "function", "function": _call(call.function)}
        for call in message.tool_calls or []
    ]
    if message.function_call is not None:
        calls.append({"type": "function", "function": _call(message.function_call)})
    if calls:
        turn["tool_calls"] = calls
    return turn


def _call(call: FunctionCall) -> dict[str, Any]:
    # Templates print arguments as JSON themselves; a string would come out quoted twice.
    return {"name": call.name, "arguments": from_json(call.arguments)}


def _text(content: str | Sequence[TextPart | RefusalPart]) -> str:
    if isinstance(content, str):
        return content
    return "".join(p.text if isinstance(p, TextPart) else p.refusal for p in content)
