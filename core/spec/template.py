"""Templates of graders: text in which ``{{ item.answer }}`` stands for a value of the row or the answer.

    path = ("item" | "sample") ("." name | "[" number "]")*

The row that is graded is ``item``; what the model wrote is ``sample``. Anything else between double braces
is refused when the job is submitted, with its position: a template that means nothing would give every
answer the same reward.
"""

import re
from dataclasses import dataclass

SAMPLE_NAMES = ("output_text", "output_json", "output_tools", "choices")

_STEP = re.compile(r"\.(?P<name>[^\s.\[\]{}]+)|\[(?P<index>[0-9]{1,9})\]")
_ROOT = re.compile(r"[^\s.\[\]{}]*")


class TemplateError(ValueError):
    """A template that cannot be read; ``position`` counts its characters from 0."""

    def __init__(self, position: int, message: str) -> None:
        self.position = position
        super().__init__(f"at character {position}: {message}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A place to look a value up: ``steps`` below ``root``, which is ``item`` or ``sample``."""

    root: str
    steps: tuple[str | int, ...]

    def __str__(self) -> str:
        return self.root + "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps
        )


Template = tuple[str | Reference, ...]


def parse_template(text: str) -> Template:
    """The literal texts and the references of ``text``, in order. Raises TemplateError."""
    parts: list[str | Reference] = []
    at = 0
    while (opened := text.find("{{", at)) >= 0:
        closed = text.find("}}", opened)
        if closed < 0:
            raise TemplateError(opened, "'{{' is never closed by '}}'")
        parts += [text[at:opened], _reference(text, opened + 2, closed)]
        at = closed + 2
    parts.append(text[at:])
    return tuple(part for part in parts if part != "")


def _reference(text: str, start: int, end: int) -> Reference:
    inner = text[start:end]
    at = start + len(inner) - len(inner.lstrip())
    end = start + len(inner.rstrip())
    root = _root(text, at, end)
    at += len(root)
    steps: list[str | int] = []
    while at < end:
        found = _STEP.match(text, at, end)
        if found is None:
            raise TemplateError(at, "a path goes on with .name or [0]")
        steps.append(int(found["index"]) if found["name"] is None else found["name"])
        at = found.end()
    if root == "sample" and steps and steps[0] not in SAMPLE_NAMES:
        known = ", ".join(SAMPLE_NAMES)
        raise TemplateError(start, f"sample has no '{steps[0]}'; it has {known}")
    return Reference(root, tuple(steps))


def _root(text: str, start: int, end: int) -> str:
    found = _ROOT.match(text, start, max(start, end))
    root = found[0] if found else ""
    if root not in {"item", "sample"}:
        raise TemplateError(start, f"a path begins with item or sample, not with '{root[:40]}'")
    return root
