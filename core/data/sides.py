"""A parsed row as the token rows that its objective makes of it: one, or one for each of two answers.

The one idea: the very functions by which the trainer encodes are called here, so what is shown or counted
before a job is what the job trains on.
"""

from dataclasses import dataclass
from typing import Literal

from core.data.chat import TrainOn, encode_prompt
from core.data.conversation import ChatTokenizer
from core.data.encoded import Encoded
from core.data.fitness import KINDS_OF_OBJECTIVE, Objective, UnfitRowError
from core.data.kinds import Document, Kind, Preference, Prompt, Tokens
from core.data.learnable import encode_learnable
from core.data.pair import encode_pair
from core.data.parse import ParsedRow
from core.data.rows import ChatRow

SideName = Literal["row", "chosen", "rejected", "prompt"]
_USUAL: dict[type[Kind], Objective] = {
    ChatRow: "sft",
    Tokens: "sft",
    Document: "pretrain",
    Preference: "dpo",
    Prompt: "grpo",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One row of tokens; of a `prompt` nothing is trained, for its answers are sampled later."""

    name: SideName
    encoded: Encoded


def usual_objective(row: ParsedRow) -> Objective:
    """The objective for which rows of this kind are usually made."""
    return _USUAL[type(row.value)]


def sides_of(
    row: ParsedRow,
    tokenizer: ChatTokenizer,
    *,
    objective: Objective | None = None,
    train_on: TrainOn = "assistant",
) -> tuple[Side, ...]:
    """Encode a row, whole: nothing is cut to a context. ``objective`` None: the usual one of its kind.

    Raises UnfitRowError and ChatTemplateError, each naming the line.
    """
    objective = objective or usual_objective(row)
    if type(row.value) not in KINDS_OF_OBJECTIVE[objective]:
        raise UnfitRowError(row, objective)
    match row.value:
        case ChatRow() | Document() | Tokens() as value:
            whole = encode_learnable(value, tokenizer, train_on=train_on, line=row.line)
            return (Side("row", whole),)
        case Preference() as preference:
            chosen, rejected = encode_pair(preference, tokenizer, row.line).branches
            return Side("chosen", chosen), Side("rejected", rejected)
        case Prompt() as prompt:
            ids = encode_prompt(prompt.chat, tokenizer)
            return (Side("prompt", Encoded(ids, [False] * len(ids), row.line)),)
