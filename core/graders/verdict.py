"""What came of grading one answer, with the flags that OpenAI gives them.

A grader that fails gives reward 0 and says so: one that always fails looks exactly like a model that
never learns, so whoever trains counts these flags.
"""

from dataclasses import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True)
class Errors:
    """What went wrong. Flags named for judges are never set: no judge model runs here."""

    formula_parse_error: bool = False
    sample_parse_error: bool = False
    truncated_observation_error: bool = False
    unresponsive_reward_error: bool = False
    invalid_variable_error: bool = False
    other_error: bool = False
    other_error_details: str | None = None
    python_grader_server_error: bool = False
    python_grader_server_error_type: str | None = None
    python_grader_runtime_error: bool = False
    python_grader_runtime_error_details: str | None = None
    model_grader_server_error: bool = False
    model_grader_server_error_details: str | None = None
    model_grader_refusal_error: bool = False
    model_grader_parse_error: bool = False

    def __bool__(self) -> bool:
        return bool(self.flags())

    def flags(self) -> list[str]:
        """The names of the flags that are set, for counting."""
        return [f.name for f in fields(self) if getattr(self, f.name) is True]

    def merged(self, other: "Errors") -> "Errors":
        """Both; of two details the first is kept."""
        changes = {f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one answer: ``reward`` is finite, and 0 where ``errors`` is not empty.

    ``sub_rewards`` are those of a multi grader, by variable; ``scores`` the same, or a single grader's
    by its name; ``execution_time`` is in seconds.
    """

    reward: float
    name: str
    type: str
    sub_rewards: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    errors: Errors = field(default_factory=Errors)
    execution_time: float = 0.0


class GradingError(Exception):
    """A grader could not say what an answer is worth; ``errors`` says why."""

    def __init__(self, errors: Errors) -> None:
        self.errors = errors
        super().__init__(", ".join(errors.flags()))
