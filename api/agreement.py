"""One objective from two places: OpenAI's `method`, and `trainer`, which has words that OpenAI has not.

The one idea: what `method` says is put into the raw `trainer` before that is validated, where the user left
it out; so a grader is given once. Where both say something, the user's own word in `trainer` stays, and is
compared after validation: the same twice is fine, a contradiction is refused under both names.
"""

from typing import Any

from pydantic import ValidationError

from api.errors import ApiError, refusal
from api.method import Method, MethodType
from core.spec.problems import Problem, shown
from core.spec.trainer import TrainerSpec

KINDS: dict[MethodType, tuple[str, ...]] = {
    "supervised": ("sft", "pretrain"),
    "dpo": ("dpo",),
    "reinforcement": ("grpo",),
}
METHOD_OF_KIND: dict[str, MethodType] = {
    kind: method for method, kinds in KINDS.items() for kind in kinds
}


def with_method(body: dict[str, Any]) -> dict[str, Any]:
    """``body`` with the words of its ``method`` in its ``trainer``, both as they were sent.

    Of a method that is wrong by itself nothing is taken, and the objective is left out: its faults could be
    the method's, which are told first.
    """
    sent, trainer = body.get("method"), body.get("trainer", {})
    if sent is None or not isinstance(trainer, dict):
        return body
    objective = trainer.get("objective", {})
    if not isinstance(objective, dict):
        return body
    method = _valid(sent)
    if method is None or _is_incomplete(method, objective):
        return {**body, "trainer": {k: v for k, v in trainer.items() if k != "objective"}}
    if objective.get("kind", KINDS[method.type][0]) not in KINDS[method.type]:
        return body
    return {**body, "trainer": _filled(trainer, objective, method)}


def check_method(method: Method, trainer: TrainerSpec) -> None:
    """Raise ApiError for a method that lacks something, or says otherwise than ``trainer``."""
    if method.strangers:
        raise invalid(
            f"method.{method.strangers[0]}",
            f"is not read: method.type is '{method.type}', so only method.{method.type} is",
        )
    if trainer.objective.kind not in KINDS[method.type]:
        no_grader = _is_incomplete(method, {})
        raise _without_grader() if no_grader else _of_another_kind(method, trainer)
    for path, (source, value) in method.trainer_words().items():
        place, word = path.split(".")
        other = getattr(getattr(trainer, place), word)
        if other != value:
            raise invalid(
                f"trainer.{path}",
                f"is {shown(_plain(other))}, but {source} makes it {shown(_plain(value))}; "
                f"give one of them",
            )


def invalid(path: str, message: str) -> ApiError:
    """The refusal of one field."""
    return refusal([Problem(path, message, "invalid_value")])


def _valid(sent: Any) -> Method | None:
    try:
        return Method.model_validate(sent)
    except ValidationError:
        return None


def _is_incomplete(method: Method, objective: dict[str, Any]) -> bool:
    absent = method.type == "reinforcement" and method.reinforcement is None
    return absent and "grader" not in objective


def _filled(trainer: dict[str, Any], objective: dict[str, Any], method: Method) -> dict[str, Any]:
    filled = {**trainer, "objective": {"kind": KINDS[method.type][0], **objective}}
    for path, (_, value) in method.trainer_words().items():
        place, word = path.split(".")
        around = filled.get(place, {})
        if isinstance(around, dict):
            filled[place] = {word: value, **around}
    return filled


def _without_grader() -> ApiError:
    message = "is required: it holds the grader"
    return refusal([Problem("method.reinforcement", message, "missing_required_parameter")])


def _of_another_kind(method: Method, trainer: TrainerSpec) -> ApiError:
    kind = trainer.objective.kind
    return invalid(
        "trainer.objective.kind",
        f"is '{kind}', but method.type is '{method.type}'; leave trainer.objective out, or set "
        f"method.type to '{METHOD_OF_KIND[kind]}'",
    )


def _plain(value: Any) -> Any:
    return value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value
