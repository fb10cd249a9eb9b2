"""The rows that a file may hold: OpenAI's chat rows, and prompt/completion pairs.

The one idea: a row is checked once, strictly, into a frozen value; unknown keys are refused
because a misspelt `weight` that is ignored trains what its author meant to leave out. Lists stop
at their first fault, so a hostile line cannot turn into millions of error objects.
Field names are those of the public fine-tuning format; `function_call`, `functions` and the role
`function` are its deprecated forms.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json

from core.data.content import AssistantContent, Content, Strict

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _json_object(text: str) -> str:
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise PydanticCustomError("arguments", "arguments are not valid JSON") from error
    if not isinstance(value, dict):
        raise PydanticCustomError("arguments", "arguments are not a JSON object")
    return text


class FunctionCall(Strict):
    """A call of a function; `arguments` is the text of a JSON object."""

    name: Annotated[str, Field(min_length=1)]
    arguments: Annotated[str, AfterValidator(_json_object)]


class ToolCall(Strict):
    """A tool call in an assistant message."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class FunctionDefinition(Strict):
    """A function that the assistant may call; `parameters` is a JSON schema."""

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Strict):
    """A tool offered in a row."""

    type: Literal["function"]
    function: FunctionDefinition


class SystemMessage(Strict):
    """Instructions that stand above the conversation."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(Strict):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class AssistantMessage(Strict):
    """What the assistant says; `weight` 0 keeps it as context and does not train it."""

    role: Literal["assistant"]
    content: AssistantContent | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1, fail_fast=True)] | None = None
    function_call: FunctionCall | None = None
    weight: Literal[0, 1] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "AssistantMessage":
        if (self.content, self.refusal, self.tool_calls, self.function_call) == (None,) * 4:
            raise PydanticCustomError(
                "says_nothing", "content may be null only beside tool_calls or a refusal"
            )
        return self

    @property
    def trained(self) -> bool:
        """Whether the message is to be learned (the default)."""
        return self.weight != 0


class ToolMessage(Strict):
    """The answer of a tool."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: str | None = None


class FunctionMessage(Strict):
    """The answer of a function (deprecated)."""

    role: Literal["function"]
    content: str | None
    name: str


def _role(value: object) -> str:
    role = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
    return "<system>" if role == "developer" else f"<{role}>"


Message = Annotated[
    Annotated[SystemMessage, Tag("<system>")]
    | Annotated[UserMessage, Tag("<user>")]
    | Annotated[AssistantMessage, Tag("<assistant>")]
    | Annotated[ToolMessage, Tag("<tool>")]
    | Annotated[FunctionMessage, Tag("<function>")],
    Discriminator(
        _role,
        custom_error_type="role_unknown",
        custom_error_message="a message is an object with a role: " + ", ".join(ROLES),
    ),
]


class ChatRow(Strict):
    """One conversation to learn from."""

    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    tools: Annotated[list[Tool], Field(fail_fast=True)] | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[list[FunctionDefinition], Field(fail_fast=True)] | None = None


class PromptCompletionRow(Strict):
    """One prompt and what is to follow it."""

    prompt: str
    completion: str

    def to_chat(self) -> ChatRow:
        """Return the same as a conversation of one question and one answer."""
        question = UserMessage(role="user", content=self.prompt)
        answer = AssistantMessage(role="assistant", content=self.completion)
        return ChatRow(messages=[question, answer])
