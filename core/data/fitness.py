"""Which shapes of row an objective can learn from, and what to do with a file that does not fit.

The one idea: an objective learns from kinds, a shape becomes a kind; everything else follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.data.kinds import Document, Kind, Preference, Prompt, Tokens
from core.data.parse import ParsedRow
from core.data.report import Shape
from core.data.rows import ChatRow

Objective = Literal["pretrain", "sft", "dpo", "grpo"]

KIND_OF_SHAPE: Mapping[Shape, type[Kind]] = {
    "chat": ChatRow,
    "prompt_completion": ChatRow,
    "alpaca": ChatRow,
    "sharegpt": ChatRow,
    "text": Document,
    "preference": Preference,
    "chosen_rejected": Preference,
    "rft": Prompt,
    "tokens": Tokens,
}
KINDS_OF_OBJECTIVE: Mapping[Objective, tuple[type[Kind], ...]] = {
    "pretrain": (Document, Tokens),
    "sft": (ChatRow, Tokens),
    "dpo": (Preference,),
    "grpo": (Prompt,),
}
_ASKED_FOR: Mapping[Objective, str] = {
    "pretrain": "trainer.objective.kind 'pretrain'",
    "sft": "method.type 'supervised' (the objective 'sft')",
    "dpo": "method.type 'dpo' (the objective 'dpo')",
    "grpo": "method.type 'reinforcement' (the objective 'grpo')",
}
_ROWS_OF_KIND: Mapping[type[Kind], str] = {
    ChatRow: "conversations that end with the assistant",
    Document: "plain text",
    Preference: "preferences",
    Prompt: "prompts that wait for an answer",
    Tokens: "token ids",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a file cannot be learnt from; `code` is invalid_training_file or invalid_validation_file."""

    code: str
    param: str
    message: str
    hint: str


class UnfitRowError(ValueError):
    """A row from which an objective cannot learn; says where it stands, and what can."""

    def __init__(self, row: ParsedRow, objective: Objective) -> None:
        message, hint = _words(f"line {row.line}", row.shape, objective)
        super().__init__(f"{message}. {hint}")


def objective_kinds(objective: Objective) -> frozenset[Shape]:
    """The shapes of row that an objective can learn from."""
    kinds = KINDS_OF_OBJECTIVE[objective]
    return frozenset(shape for shape, kind in KIND_OF_SHAPE.items() if kind in kinds)


def why_unfit(
    shape: Shape, objective: Objective, *, param: str = "training_file", name: str = ""
) -> Misfit | None:
    """None if the objective can learn from rows of this shape, else why not and what to do.

    `param` is the field that names the file, and `name` the file as its owner knows it.
    """
    if shape in objective_kinds(objective):
        return None
    message, hint = _words(f"{param} '{name}'" if name else param, shape, objective)
    return Misfit(f"invalid_{param}", param, message, hint)


def _words(holder: str, shape: Shape, objective: Objective) -> tuple[str, str]:
    """What `holder` holds in place of what was wanted, and what to do."""
    kind = KIND_OF_SHAPE[shape]
    wanted = " or ".join(_ROWS_OF_KIND[k] for k in KINDS_OF_OBJECTIVE[objective])
    message = (
        f"{holder} holds {_ROWS_OF_KIND[kind]} (the shape '{shape}'); "
        f"{_ASKED_FOR[objective]} learns from {wanted}"
    )
    able = [o for o, kinds in KINDS_OF_OBJECTIVE.items() if kind in kinds]
    ways = " or ".join(_ASKED_FOR[o] for o in able)
    shapes = ", ".join(s for s in KIND_OF_SHAPE if s in objective_kinds(objective))
    return message, f"Use {ways}, or upload rows of one of the shapes {shapes}."
