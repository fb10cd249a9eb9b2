"""Rows with two answers of which one is preferred.

    preference        OpenAI's: input, preferred_output, non_preferred_output
    chosen_rejected   prompt, chosen, rejected; or chosen and rejected as whole conversations that
                      begin alike

The one idea: whatever the two sides share is the prompt, and both go on from it with the assistant.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Discriminator, Field, Tag

from core.data.content import Strict
from core.data.fault import Refusal
from core.data.kinds import Preference
from core.data.rows import AssistantMessage, ChatRow, Message, Tool, UserMessage
from core.data.shapes.chat import refuse_unanswered

PREFERENCE_KEYS = frozenset(
    {
        "input",
        "preferred_output",
        "preferred_completion",
        "non_preferred_output",
        "non_preferred_completion",
    }
)
_ANSWERERS = ("assistant", "tool", "function")
_Messages = Annotated[list[Message], Field(min_length=1, fail_fast=True)]


def _side_kind(value: object) -> str:
    return "<text>" if isinstance(value, str) else f"<{type(value).__name__}>"


_Side = Annotated[
    Annotated[str, Field(min_length=1), Tag("<text>")] | Annotated[_Messages, Tag("<list>")],
    Discriminator(
        _side_kind,
        custom_error_type="side",
        custom_error_message="neither a string nor a list of messages",
    ),
]


class PreferenceInput(Strict):
    """What both answers are given to."""

    messages: _Messages
    tools: Annotated[list[Tool], Field(fail_fast=True)] | None = None
    parallel_tool_calls: bool | None = None


class PreferenceRow(Strict):
    """OpenAI's form; older clients write completion for output."""

    input: PreferenceInput
    preferred_output: _Messages = Field(
        validation_alias=AliasChoices("preferred_output", "preferred_completion")
    )
    non_preferred_output: _Messages = Field(
        validation_alias=AliasChoices("non_preferred_output", "non_preferred_completion")
    )


class ChosenRejectedRow(Strict):
    """The form of most public data sets."""

    prompt: _Side | None = None
    chosen: _Side
    rejected: _Side


def parse_preference(row: dict[str, Any]) -> Preference:
    """A row of OpenAI's form. Raises Refusal or ValidationError."""
    read = PreferenceRow.model_validate(row)
    prompt = ChatRow(**{name: getattr(read.input, name) for name in PreferenceInput.model_fields})
    names = [
        next(key for key in row if key in (f"{side}_output", f"{side}_completion"))
        for side in ("preferred", "non_preferred")
    ]
    return _preference(prompt, (read.preferred_output, read.non_preferred_output), names, 0)


def parse_chosen_rejected(row: dict[str, Any]) -> Preference:
    """A row with chosen and rejected. Raises Refusal or ValidationError."""
    read = ChosenRejectedRow.model_validate(row)
    sides = (_answer(read.chosen), _answer(read.rejected))
    names = ["chosen", "rejected"]
    if read.prompt is not None:
        start = _question(read.prompt)
        # Some data sets repeat the prompt at the beginning of both sides.
        repeated = all(side[: len(start)] == start for side in sides)
        shared = len(start) if repeated else 0
    elif isinstance(read.chosen, str) or isinstance(read.rejected, str):
        hint = "Add the prompt, or write chosen and rejected as whole conversations."
        raise Refusal.because("invalid_file_format", "there is no prompt", hint, "/prompt")
    else:
        shared = _shared_beginning(*sides)
        start = sides[0][:shared]
    return _preference(ChatRow(messages=start), sides, names, shared)


def _question(prompt: str | list[Message]) -> list[Message]:
    return [UserMessage(role="user", content=prompt)] if isinstance(prompt, str) else prompt


def _answer(side: str | list[Message]) -> list[Message]:
    return [AssistantMessage(role="assistant", content=side)] if isinstance(side, str) else side


def _shared_beginning(chosen: list[Message], rejected: list[Message]) -> int:
    """How many messages are the prompt: the longest common beginning that the assistant answers."""
    if chosen == rejected:
        raise _no_preference("rejected")
    most = min(len(chosen), len(rejected)) - 1
    equal = next((n for n in range(most) if chosen[n] != rejected[n]), most)
    for shared in range(equal, 0, -1):
        if chosen[shared].role == rejected[shared].role == "assistant":
            return shared
    message = "chosen and rejected have no common beginning that the assistant answers"
    hint = "Begin both with the same messages, or give these as the prompt."
    raise Refusal.because("invalid_file_format", message, hint, "/rejected")


def _preference(
    prompt: ChatRow, sides: tuple[list[Message], list[Message]], names: Sequence[str], shared: int
) -> Preference:
    """Two sides, checked, without the `shared` messages that are the prompt."""
    chosen, rejected = (side[shared:] for side in sides)
    for name, side, answer in zip(names, sides, (chosen, rejected), strict=True):
        _refuse_other_speakers(side, shared, f"/{name}")
        refuse_unanswered([*side[:shared], *answer], f"/{name}", "role")
    if chosen == rejected:
        raise _no_preference(names[1])
    return Preference(prompt, tuple(chosen), tuple(rejected))


def _refuse_other_speakers(side: list[Message], shared: int, at: str) -> None:
    if len(side) == shared:
        hint = "Add the assistant's answer."
        raise Refusal.because("no_trainable_tokens", "nothing follows the prompt", hint, at)
    for number, said in enumerate(side[shared:], shared):
        allowed = ("assistant",) if number == shared else _ANSWERERS
        if said.role not in allowed:
            message = (
                f"a message from the {said.role}, where one from the {' or '.join(allowed)} is due"
            )
            hint = "Put what both answers have in common into the prompt."
            raise Refusal.because("invalid_file_format", message, hint, f"{at}/{number}/role")


def _no_preference(name: str) -> Refusal:
    message = "both answers are the same, so neither is preferred"
    return Refusal.because("no_preference", message, "Remove the row.", f"/{name}")
