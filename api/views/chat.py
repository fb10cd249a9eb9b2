"""An answer of a model as the API shows it, whole and in chunks."""

import json
from typing import Any, Literal, Self

from pydantic import BaseModel

FinishReason = Literal["stop", "length"]


class UsageView(BaseModel):
    """Tokens that were read and drawn."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt: int, completion: int) -> Self:
        """The numbers and their sum."""
        return cls(
            prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
        )


class ChatMessageView(BaseModel):
    """What the model said."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoiceView(BaseModel):
    """The only answer."""

    index: int = 0
    message: ChatMessageView
    finish_reason: FinishReason
    logprobs: None = None


class ChatView(BaseModel):
    """OpenAI's chat completion object."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoiceView]
    usage: UsageView


class DeltaView(BaseModel):
    """What is new in a chunk."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoiceView(BaseModel):
    """A piece of the only answer."""

    index: int = 0
    delta: DeltaView
    finish_reason: FinishReason | None = None
    logprobs: None = None


class ChunkView(BaseModel):
    """OpenAI's chat completion chunk."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoiceView]
    usage: UsageView | None = None

    def event(self) -> str:
        """One server-sent event; what a delta does not say is left out of it."""
        shown: dict[str, Any] = self.model_dump(mode="json")
        for choice in shown["choices"]:
            choice["delta"] = {k: v for k, v in choice["delta"].items() if v is not None}
        return sent(shown)


def sent(data: dict[str, Any]) -> str:
    """An object as a server-sent event."""
    return f"data: {json.dumps(data)}\n\n"
