"""Which shape a row has, told from its keys.

The one idea: a key that only one shape has is its mark. A row with the marks of no shape or of two
is refused and told what there is; nothing is guessed.
"""

from collections.abc import Container, Mapping

from core.data.fault import Refusal
from core.data.report import Shape, shown
from core.data.shapes.chat import messages_shape
from core.data.shapes.columns import meant_as

_MARKS: dict[Shape, frozenset[str]] = {
    "chat": frozenset({"messages"}),
    "prompt_completion": frozenset({"prompt", "completion"}),
    "alpaca": frozenset({"instruction"}),
    "sharegpt": frozenset({"conversations"}),
    "text": frozenset({"text"}),
    "preference": frozenset(
        {
            "preferred_output",
            "non_preferred_output",
            "preferred_completion",
            "non_preferred_completion",
        }
    ),
    "chosen_rejected": frozenset({"chosen", "rejected"}),
    "tokens": frozenset({"input_ids"}),
}
"""chat stands for rft as well: both are told apart by who speaks last."""

EXPECTED = (
    "A row is one of {messages}, {prompt, completion}, {instruction, input, output}, {conversations}, "
    "{text}, {input, preferred_output, non_preferred_output}, {prompt, chosen, rejected}, {input_ids}."
)


def shape_of(row: Mapping[str, object], first: Shape | None, ignored: Container[str] = ()) -> Shape:
    """The shape of a row in a file whose first row has the shape `first`. Raises Refusal.

    `ignored` are the columns that rows before it had and that were not read.
    """
    found = [shape for shape, marks in _MARKS.items() if not marks.isdisjoint(row)]
    if "chosen_rejected" in found and "completion" not in row and "prompt_completion" in found:
        found.remove("prompt_completion")
    if len(found) == 1:
        return messages_shape(row, first, ignored) if found == ["chat"] else found[0]
    keys = ", ".join(shown(key) for key in list(row)[:10]) or "none"
    if found:
        message = f"keys of more than one shape ({', '.join(found)}); keys: {keys}"
        raise Refusal.because("invalid_file_format", message, "Keep the keys of one. " + EXPECTED)
    hint = _did_you_mean(list(row)[:10]) + EXPECTED
    raise Refusal.because("invalid_file_format", f"no known shape of row; keys: {keys}", hint)


def _did_you_mean(keys: list[str]) -> str:
    names = frozenset().union(*_MARKS.values())
    meant = next(filter(None, (meant_as(key, names) for key in keys)), None)
    return f"Did you mean '{meant}'? " if meant else ""
