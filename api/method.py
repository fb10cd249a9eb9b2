"""The object `method` of a create request: OpenAI's three kinds of fine-tuning, with their numbers.

A number that is `auto` is left to the recipe. What of a method the spec calls by a word of its own is given
by `trainer_words`; `api.agreement` brings those together with what the user says in `trainer`.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from core.spec.grader import GraderSpec
from core.spec.objective import GrpoSpec
from core.spec.tree import Spec

Auto = Literal["auto"]
MethodType = Literal["supervised", "dpo", "reinforcement"]
COMMON = ("n_epochs", "batch_size", "learning_rate_multiplier")
USUAL_GROUP: int = GrpoSpec.model_fields["group_size"].default
SMALLEST_GROUP = 2
LARGEST_BETA, LARGEST_MULTIPLIER = 2.0, 10.0
Words = dict[str, tuple[str, Any]]
"""What a method says in the spec's terms: ``objective.beta`` to the field that says it, and its value."""


class SupervisedHyperparameters(Spec):
    """OpenAI's numbers of every method; `auto` leaves one to the recipe."""

    n_epochs: Annotated[int, Field(ge=1, le=50)] | Auto = "auto"
    batch_size: Annotated[int, Field(ge=1, le=256)] | Auto = "auto"
    learning_rate_multiplier: Annotated[float, Field(gt=0.0, le=1e4)] | Auto = "auto"

    def chosen(self) -> dict[str, Any]:
        """The numbers that are not `auto`."""
        return {name: value for name, value in self if value != "auto"}


class DpoHyperparameters(SupervisedHyperparameters):
    """Those of preference optimisation."""

    beta: Annotated[float, Field(gt=0.0, le=LARGEST_BETA)] | Auto = "auto"


def _only_default(effort: Any) -> Any:
    if effort in ("low", "medium", "high"):
        raise ValueError("only 'default': the models trained here have no levels of effort")
    return effort


class ReinforcementHyperparameters(SupervisedHyperparameters):
    """Those of sampled and graded answers."""

    compute_multiplier: Annotated[float, Field(gt=1e-5, le=LARGEST_MULTIPLIER)] | Auto = Field(
        "auto",
        description=f"Answers to each prompt, in units of {USUAL_GROUP}; there are at least "
        f"{SMALLEST_GROUP}.",
    )
    eval_interval: Annotated[int, Field(ge=1, le=10_000_000)] | Auto = Field(
        "auto", description="The same as trainer.evaluation.every."
    )
    eval_samples: Annotated[int, Field(ge=1, le=64)] | Auto = "auto"
    reasoning_effort: Annotated[Literal["default", "auto"], BeforeValidator(_only_default)] = (
        "default"
    )


class ResponseFormat(Spec):
    """What form an answer is asked for in; a JSON schema is shown to nobody: only graders see the JSON."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class SupervisedMethod(Spec):
    """Settings of supervised fine-tuning."""

    hyperparameters: SupervisedHyperparameters = SupervisedHyperparameters()


class DpoMethod(Spec):
    """Settings of preference optimisation."""

    hyperparameters: DpoHyperparameters = DpoHyperparameters()


class ReinforcementMethod(Spec):
    """Settings of learning from graded answers."""

    grader: GraderSpec
    hyperparameters: ReinforcementHyperparameters = ReinforcementHyperparameters()
    response_format: ResponseFormat | None = Field(
        None,
        description="Other than text: an answer is parsed as JSON for graders, as sample.output_json. "
        "Sampling is not bound to the schema; grade what you ask for.",
    )

    @field_validator("response_format")
    @classmethod
    def _schema_only_where_read(cls, wanted: ResponseFormat | None) -> ResponseFormat | None:
        if wanted and wanted.json_schema is not None and wanted.type != "json_schema":
            raise ValueError(f"json_schema is for type 'json_schema', not '{wanted.type}'")
        return wanted


class Method(Spec):
    """Which kind of fine-tuning, in OpenAI's words; only the object that ``type`` names may be given."""

    type: MethodType
    supervised: SupervisedMethod | None = None
    dpo: DpoMethod | None = None
    reinforcement: ReinforcementMethod | None = None

    @property
    def numbers(self) -> dict[str, int | float]:
        """The numbers that every method has, where they are not `auto`."""
        return {name: value for name, value in self._chosen().items() if name in COMMON}

    @property
    def strangers(self) -> list[str]:
        """Objects of other methods, which nobody would read."""
        names = ("supervised", "dpo", "reinforcement")
        return [name for name in names if name != self.type and getattr(self, name) is not None]

    def trainer_words(self) -> Words:
        """What it says beyond `numbers`, by the path below ``trainer`` at which the spec has it."""
        chosen = self._chosen()
        words: Words = {}
        if "beta" in chosen:
            words["objective.beta"] = self._path("beta"), chosen["beta"]
        if self.reinforcement is not None and self.type == "reinforcement":
            words.update(_graded(self.reinforcement))
        if "compute_multiplier" in chosen:
            size = max(SMALLEST_GROUP, round(USUAL_GROUP * chosen["compute_multiplier"]))
            words["objective.group_size"] = self._path("compute_multiplier"), size
        if "eval_samples" in chosen:
            words["objective.eval_samples"] = self._path("eval_samples"), chosen["eval_samples"]
        if "eval_interval" in chosen:
            words["evaluation.every"] = self._path("eval_interval"), chosen["eval_interval"]
        return words

    def _chosen(self) -> dict[str, Any]:
        settings = getattr(self, self.type)
        return settings.hyperparameters.chosen() if settings is not None else {}

    def _path(self, number: str) -> str:
        return f"method.{self.type}.hyperparameters.{number}"


def _graded(method: ReinforcementMethod) -> Words:
    words: Words = {"objective.grader": ("method.reinforcement.grader", method.grader)}
    if method.response_format is not None:
        is_json = method.response_format.type != "text"
        words["objective.json_output"] = "method.reinforcement.response_format", is_json
    return words
