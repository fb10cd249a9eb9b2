"""What a message may say: a string, or a list of typed parts.

The one idea: only text can be trained on, so only text (and, from the assistant, a refusal) is a
part; anything else is refused at its place in the row.
"""

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

_MAX_KEYS = 32


class Strict(BaseModel):
    """A frozen value that takes no unknown key, converts nothing and stays small when it errs."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, value: object) -> object:
        if isinstance(value, dict) and len(value) > _MAX_KEYS:
            raise PydanticCustomError("too_many_keys", "object has more than 32 keys")
        return value


class TextPart(Strict):
    """A typed text part."""

    type: Literal["text"]
    text: str


class RefusalPart(Strict):
    """A typed part in which the assistant declines."""

    type: Literal["refusal"]
    refusal: str


def _part_kind(value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>"


def _is_text_part(value: object) -> object:
    if _part_kind(value) != "<text>":
        raise PydanticCustomError("part_unknown", "a part here is of type text")
    return value


def _content_kind(value: object) -> str:
    return "<text>" if isinstance(value, str) else f"<{type(value).__name__}>"


# Tags stand in angle brackets so that a path in an error tells them from keys of the row.
_Part = Annotated[TextPart, BeforeValidator(_is_text_part)]
_AssistantPart = Annotated[
    Annotated[TextPart, Tag("<text>")] | Annotated[RefusalPart, Tag("<refusal>")],
    Discriminator(
        _part_kind,
        custom_error_type="part_unknown",
        custom_error_message="a part here is of type text or refusal",
    ),
]
_Parts = Annotated[list[_Part], Field(min_length=1, fail_fast=True)]
_AssistantParts = Annotated[list[_AssistantPart], Field(min_length=1, fail_fast=True)]
_text_or_parts = Discriminator(
    _content_kind,
    custom_error_type="content",
    custom_error_message="content is a string or a list of typed parts",
)
Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[_Parts, Tag("<list>")], _text_or_parts
]
AssistantContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[_AssistantParts, Tag("<list>")], _text_or_parts
]
