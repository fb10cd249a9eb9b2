"""What a client may ask of a model that it talks to: the part of OpenAI's chat request that is served here.

Whatever is not listed is refused by its name; nothing is quietly ignored.
"""

import secrets
from typing import Annotated, Self

from pydantic import Field, model_validator

from core.data.rows import Message
from core.spec.chat import ChatOrder, ChatTurn
from core.spec.job import LARGEST_SEED
from core.spec.tree import Spec

StopText = Annotated[str, Field(min_length=1, max_length=256)]
LONGEST_ANSWER = 1_000_000


class StreamOptions(Spec):
    """Of an answer that comes as a stream."""

    include_usage: bool = False


class CreateChat(Spec):
    """Body of POST /v1/chat/completions."""

    model: str = Field(min_length=1, max_length=512)
    messages: list[Message] = Field(min_length=1, max_length=2048)
    temperature: float = Field(1.0, ge=0.0, le=2.0, description="0: the likeliest token each time.")
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    max_tokens: int | None = Field(None, ge=1, le=LONGEST_ANSWER)
    max_completion_tokens: int | None = Field(None, ge=1, le=LONGEST_ANSWER)
    stop: StopText | Annotated[list[StopText], Field(max_length=4)] | None = None
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED)
    n: int | None = Field(None, ge=1, le=1, description="One answer to a request.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        limits = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(limits) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ; give one of them")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options are for a stream; set stream to true")
        if self.messages[-1].role == "assistant":
            raise ValueError("the last message is the assistant's already; end with another's")
        return self

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return self.stream_options is not None and self.stream_options.include_usage

    def order(self, project_id: str) -> ChatOrder:
        """The order that a worker is given; what was left open is drawn here."""
        stop = [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
        turn = ChatTurn(
            messages=[m.model_dump(mode="json", exclude_none=True) for m in self.messages],
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stop=stop,
            seed=secrets.randbelow(LARGEST_SEED) if self.seed is None else self.seed,
        )
        return ChatOrder(project_id=project_id, model=self.model, turn=turn)
