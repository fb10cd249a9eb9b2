"""A conversation rendered by the model's own chat template into token ids.

The one idea: one place turns messages into ids, for training and for sampling alike, with exactly
one beginning-of-sequence token whether the template prints it or the tokenizer prepends it.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from jinja2 import TemplateError

from core.data.rows import ChatRow
from core.data.turns import template_messages, template_tools


class ChatTokenizer(Protocol):
    """What is needed of a tokenizer; transformers' tokenizers have it."""

    @property
    def bos_token_id(self) -> Any:
        """Id of the beginning-of-sequence token, or None."""

    @property
    def eos_token_id(self) -> Any:
        """Id of the token that ends a turn, or None."""

    def get_chat_template(self, chat_template: Any = None, tools: Any = None) -> str:
        """Return the template's text; raises ValueError where there is none."""

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        """Render messages, and tokenise them."""

    def __call__(self, text: Any, **kwargs: Any) -> Any:
        """Tokenise text, with the tokenizer's own special tokens."""


class ChatTemplateError(ValueError):
    """A row and the model's chat template do not go together; names the row and the remedy."""

    def __init__(self, message: str, remedy: str, line: int = 0) -> None:
        place = f"line {line}: " if line else ""
        super().__init__(f"{place}{message}. {remedy}")
        self.remedy = remedy
        self.line = line


@dataclass(frozen=True, slots=True)
class Conversation:
    """A row ready for the template of a tokenizer."""

    messages: list[dict[str, Any]]
    tokenizer: ChatTokenizer
    template: str
    variables: dict[str, Any]
    line: int

    @classmethod
    def of(cls, row: ChatRow, tokenizer: ChatTokenizer, line: int) -> "Conversation":
        """Bring a row to the template's words; `line` is for messages (0: none)."""
        tools = template_tools(row)
        template = _template(tokenizer, tools)
        variables: dict[str, Any] = {"tools": tools}
        if row.parallel_tool_calls is not None:
            variables["parallel_tool_calls"] = row.parallel_tool_calls
        messages = template_messages(row.messages, template)
        return cls(messages, tokenizer, template, variables, line)

    def error(self, message: str, remedy: str) -> ChatTemplateError:
        """Make the error that names this row's line."""
        return ChatTemplateError(message, remedy, self.line)

    def apply(self, count: int, **kwargs: Any) -> dict[str, Any]:
        """Return token ids, and what else `kwargs` ask for, of the first messages."""
        try:
            return dict(
                self.tokenizer.apply_chat_template(
                    self.messages[:count],
                    tokenize=True,
                    return_dict=True,
                    **self.variables,
                    **kwargs,
                )
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise self.error(
                f"the chat template fails on this row: {error}",
                "Change the row to what the template accepts (roles, their order, tools).",
            ) from error

    def ids(self, count: int, *, generation_prompt: bool = False) -> list[int]:
        """Token ids of the first `count` messages."""
        ids = self.apply(count, add_generation_prompt=generation_prompt)["input_ids"]
        return [*missing_bos(ids, self.tokenizer), *ids]


def missing_bos(ids: list[int], tokenizer: ChatTokenizer) -> list[int]:
    """Return the beginning-of-sequence token where `ids` lack it, else nothing.

    Templates are tokenised without special tokens, so one that prints the token gives exactly
    one; this gives the token to those that leave it to a tokenizer which prepends it.
    """
    bos = tokenizer.bos_token_id
    if bos is None or ids[:1] == [bos]:
        return []
    return [bos] if list(tokenizer("a")["input_ids"])[:1] == [bos] else []


def _template(tokenizer: ChatTokenizer, tools: list[dict[str, Any]] | None) -> str:
    try:
        return tokenizer.get_chat_template(tools=tools)
    except ValueError as error:
        raise ChatTemplateError(
            "the model's tokenizer has no chat template",
            "Train a chat (instruct) model, or give trainer.chat_template.",
        ) from error
