"""A chat between the API and whoever answers it: the order, and what comes back, a reply at a time.

The order lies in the broker at a key that lives for a few seconds, and the API renews it while its client
waits. A ring carries the order's id alone. Where the key is gone nobody waits: not for an answer that has not
begun, nor for the rest of one. Replies are pushed to a list that outlives its last reply by a minute.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from core.spec.tree import Spec

ORDER_LIFE_MS: Final = 5000
REPLIES_LIFE_S: Final = 60
USUAL_ANSWER_TOKENS: Final = 1024
"""The longest answer where a request does not say."""


def order_key(order_id: str) -> str:
    """Where an order lies."""
    return f"castalia:chat:{order_id}:order"


def replies_key(order_id: str) -> str:
    """The list of what was replied."""
    return f"castalia:chat:{order_id}:replies"


class ChatTurn(Spec):
    """What is asked of a loaded model. A temperature of 0 takes the likeliest token."""

    messages: list[dict[str, Any]]
    temperature: float
    top_p: float
    max_tokens: int | None
    stop: list[str]
    seed: int


class ChatOrder(Spec):
    """A turn, and the model that is to take it: of the project's own, shared with it, or a base model."""

    project_id: str
    model: str
    turn: ChatTurn


class Begun(Spec):
    """The conversation is read."""

    kind: Literal["begun"] = "begun"
    prompt_tokens: int


class Said(Spec):
    """Some more text."""

    kind: Literal["said"] = "said"
    text: str


class Ended(Spec):
    """The answer is whole; ``completion_tokens`` counts the token that ended it."""

    kind: Literal["ended"] = "ended"
    finish_reason: Literal["stop", "length"]
    completion_tokens: int


class Refused(Spec):
    """There is no answer, or no more of one. ``status`` is HTTP's; ``fatal``: the model's process ends."""

    kind: Literal["refused"] = "refused"
    status: int
    code: str
    message: str
    param: str | None = None
    fatal: bool = False


ChatReply = Annotated[Begun | Said | Ended | Refused, Field(discriminator="kind")]

chat_reply: TypeAdapter[ChatReply] = TypeAdapter(ChatReply)
"""Reads one reply: ``chat_reply.validate_json(line)``."""


class ChatWeights(Spec):
    """What a model is loaded from: a folder, and that of an adapter beside it with its `LoraSpec`."""

    folder: str
    adapter: str | None = None
    lora: dict[str, Any] | None = None
