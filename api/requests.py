"""What a client may ask for: OpenAI's create request, and the spec that it stands for; a preview of a row.

`trainer` is the spec's own tree, so what the API accepts and what the trainer reads cannot drift apart.
"""

import secrets
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from api.agreement import check_method, invalid, with_method
from api.bases import Bases
from api.errors import ApiError, refusal
from api.incoming import LONGEST_LIFE_S, PURPOSES, SHORTEST_LIFE_S
from api.method import Method, SupervisedHyperparameters
from core.data.template_syntax import syntax_problem
from core.graders.check import refusals
from core.spec.grader import GraderSpec
from core.spec.job import LARGEST_SEED, Hyperparameters, JobSpec
from core.spec.objective import GrpoSpec, SftSpec
from core.spec.trainer import TrainerSpec
from core.spec.tree import Spec

WITHOUT_NUL = r"^[^\x00]*$"
TagKey = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=WITHOUT_NUL)]
TagValue = Annotated[str, StringConstraints(max_length=512, pattern=WITHOUT_NUL)]


class TrainerBody(TrainerSpec):
    """The `trainer` object of a request: the spec's, and what is only asked and never kept."""

    dry_run: bool = Field(
        False, description="Answer with the job's plan (JobPlan) alone; no job is made."
    )

    def spec(self) -> TrainerSpec:
        """What is kept."""
        fields = {name: getattr(self, name) for name in TrainerSpec.model_fields}
        return TrainerSpec.model_construct(self.model_fields_set - {"dry_run"}, **fields)


class Training(Spec):
    """What is learnt, by which model, from which file."""

    model: str = Field(min_length=1, max_length=512)
    training_file: str = Field(min_length=1, max_length=128)
    method: Method | None = None
    trainer: TrainerBody = Field(
        TrainerBody(),
        description="Its objective may leave out what method says, its kind and its grader among them.",
    )

    def refuse_template(self) -> None:
        """Raises ApiError for a chat template that cannot be read, before anybody waits for a worker."""
        template = self.trainer.chat_template
        if template is not None and (said := syntax_problem(template)) is not None:
            message = f"Invalid 'trainer.chat_template': it cannot be read: {said}"
            raise ApiError(400, message, code="chat_template_error", param="trainer.chat_template")

    @model_validator(mode="before")
    @classmethod
    def _method_is_part_of_trainer(cls, body: Any) -> Any:
        return with_method(body) if isinstance(body, dict) else body


class PreviewRow(Training):
    """Body of POST /v1/trainer/preview. Without method and trainer: the usual objective of the row."""

    line: int | None = Field(
        None, ge=1, description="Line of the file, or row of a Parquet file; null: the first row."
    )

    def asked_for(self) -> dict[str, str]:
        """The words of a `PreviewOrder` about the objective. Raises ApiError for a contradiction."""
        self.refuse_template()
        if self.method is not None:
            check_method(self.method, self.trainer)
        elif "trainer" not in self.model_fields_set:
            return {}
        objective = self.trainer.objective
        words: dict[str, str] = {"objective": objective.kind}
        if isinstance(objective, SftSpec):
            words["train_on"] = objective.train_on
        if self.trainer.chat_template is not None:
            words["chat_template"] = self.trainer.chat_template
        return words


class ExpiresAfter(Spec):
    """How long a file is to stay."""

    anchor: Literal["created_at"]
    seconds: int = Field(ge=SHORTEST_LIFE_S, le=LONGEST_LIFE_S)


class CreateUpload(Spec):
    """Body of POST /v1/uploads."""

    filename: str = Field(min_length=1, max_length=1024)
    purpose: str = Field(max_length=64, json_schema_extra={"enum": list(PURPOSES)})
    bytes: int = Field(ge=1)
    mime_type: str = Field(max_length=255, description="Not used: rows are known by their content.")
    expires_after: ExpiresAfter | None = None


class CompleteUpload(Spec):
    """Body of POST /v1/uploads/{id}/complete."""

    part_ids: list[str] = Field(min_length=1, max_length=100_000)
    md5: str | None = Field(None, pattern=r"^[0-9a-fA-F]{32}$", description="Of the whole, in hex.")


class ShareCheckpoint(Spec):
    """Body of POST /v1/fine_tuning/checkpoints/{checkpoint}/permissions."""

    project_ids: list[str] = Field(min_length=1, max_length=100)


class ValidateGrader(Spec):
    """Body of POST /v1/fine_tuning/alpha/graders/validate."""

    grader: GraderSpec


class RunGrader(ValidateGrader):
    """Body of POST /v1/fine_tuning/alpha/graders/run."""

    model_sample: str = Field(max_length=1_000_000, description="The answer to be graded.")
    item: dict[str, Any] | None = Field(None, description="The row, as `item` of templates.")


class CreateJob(Training):
    """Body of POST /v1/fine_tuning/jobs."""

    validation_file: str | None = Field(None, min_length=1, max_length=128)
    hyperparameters: SupervisedHyperparameters | None = Field(
        None, description="Deprecated by OpenAI: the same as those of method."
    )
    suffix: str | None = Field(None, min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED)
    metadata: dict[TagKey, TagValue] | None = Field(None, max_length=16)
    integrations: list[Any] | None = Field(None, max_length=5)

    def job_spec(self, bases: Bases) -> JobSpec:
        """The resolved spec. Raises ApiError or SpecError for what cannot be carried out."""
        self._refuse_contradictions()
        numbers = self._hyperparameters()
        if self.trainer.learning_rate is not None and "learning_rate_multiplier" in numbers:
            raise invalid(
                "trainer.learning_rate",
                "is absolute and cannot be combined with learning_rate_multiplier; give one of them",
            )
        base = bases.find(self.model)
        spec = JobSpec(
            model=self.model,
            base_model=base.base_model,
            training_file=self.training_file,
            validation_file=self.validation_file,
            seed=secrets.randbelow(LARGEST_SEED) if self.seed is None else self.seed,
            hyperparameters=Hyperparameters.parse(numbers),
            trainer=self.trainer.spec(),
        ).resolved(base.facts)
        self._refuse_grader_without_a_bench()
        return spec

    def _hyperparameters(self) -> dict[str, int | float]:
        new = self.method.numbers if self.method else {}
        old = self.hyperparameters.chosen() if self.hyperparameters else {}
        for name in new.keys() & old.keys():
            if self.method and new[name] != old[name]:
                raise invalid(
                    f"hyperparameters.{name}",
                    f"is {old[name]}, but method.{self.method.type}.hyperparameters.{name} is "
                    f"{new[name]}; give it once, under method",
                )
        return {**old, **new}

    def _refuse_grader_without_a_bench(self) -> None:
        """Graders that need a library or the sandbox are tried; the last check, for it takes time."""
        if not isinstance(self.trainer.objective, GrpoSpec):
            return
        in_method = self.method is not None and self.method.reinforcement is not None
        path = "method.reinforcement.grader" if in_method else "trainer.objective.grader"
        if problems := refusals(self.trainer.objective.grader, path):
            raise refusal(problems)

    def _refuse_contradictions(self) -> None:
        self.refuse_template()
        if self.method is not None:
            check_method(self.method, self.trainer)
        if self.integrations:
            raise invalid(
                "integrations", "are not supported; leave it out and read the job's events instead"
            )
