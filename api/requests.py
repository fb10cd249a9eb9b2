"""What a client may ask for: OpenAI's create request, and the spec that it stands for.

`trainer` is the spec's own tree, so what the API accepts and what the trainer reads cannot drift apart.
"""

import secrets
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from api.errors import ApiError, refusal
from core.models.catalog import Catalog, UnknownModel, UnreadableModel
from core.spec.job import LARGEST_SEED, Hyperparameters, JobSpec
from core.spec.problems import Problem
from core.spec.trainer import TrainerSpec
from core.spec.tree import Spec

Auto = Literal["auto"]
WITHOUT_NUL = r"^[^\x00]*$"
TagKey = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=WITHOUT_NUL)]
TagValue = Annotated[str, StringConstraints(max_length=512, pattern=WITHOUT_NUL)]

REFUSED_METHODS = ("dpo", "reinforcement")


class SupervisedHyperparameters(Spec):
    """OpenAI's numbers; `auto` leaves one to the recipe."""

    n_epochs: Annotated[int, Field(ge=1, le=50)] | Auto = "auto"
    batch_size: Annotated[int, Field(ge=1, le=256)] | Auto = "auto"
    learning_rate_multiplier: Annotated[float, Field(gt=0.0, le=1e4)] | Auto = "auto"

    def chosen(self) -> dict[str, int | float]:
        """The numbers that are not `auto`."""
        return {name: value for name, value in self if value != "auto"}


class SupervisedMethod(Spec):
    """Settings of supervised fine-tuning."""

    hyperparameters: SupervisedHyperparameters = SupervisedHyperparameters()


class Method(Spec):
    """Which kind of fine-tuning, in OpenAI's words."""

    type: Literal["supervised", "dpo", "reinforcement"]
    supervised: SupervisedMethod | None = None
    dpo: dict[str, Any] | None = None
    reinforcement: dict[str, Any] | None = None


class CreateJob(Spec):
    """Body of POST /v1/fine_tuning/jobs."""

    model: str = Field(min_length=1, max_length=512)
    training_file: str = Field(min_length=1, max_length=128)
    validation_file: str | None = Field(None, min_length=1, max_length=128)
    method: Method | None = None
    hyperparameters: SupervisedHyperparameters | None = Field(
        None, description="Deprecated by OpenAI: the same as method.supervised.hyperparameters."
    )
    suffix: str | None = Field(None, min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED)
    metadata: dict[TagKey, TagValue] | None = Field(None, max_length=16)
    integrations: list[Any] | None = Field(None, max_length=5)
    trainer: TrainerSpec = TrainerSpec()

    def job_spec(self, catalog: Catalog) -> JobSpec:
        """The resolved spec. Raises ApiError or SpecError for what cannot be carried out."""
        self._refuse_what_is_not_here()
        numbers = self._hyperparameters()
        if self.trainer.learning_rate is not None and "learning_rate_multiplier" in numbers:
            raise _invalid(
                "trainer.learning_rate",
                "is absolute and cannot be combined with learning_rate_multiplier; give one of them",
            )
        try:
            facts = catalog.facts(self.model)
        except UnknownModel as error:
            raise ApiError(404, str(error), code="model_not_found", param="model") from None
        except UnreadableModel as error:
            raise ApiError(400, str(error), code="model_not_trainable", param="model") from None
        spec = JobSpec(
            model=self.model,
            training_file=self.training_file,
            validation_file=self.validation_file,
            seed=secrets.randbelow(LARGEST_SEED) if self.seed is None else self.seed,
            hyperparameters=Hyperparameters.parse(numbers),
            trainer=self.trainer,
        )
        return spec.resolved(facts)

    def _hyperparameters(self) -> dict[str, int | float]:
        of_method = self.method.supervised if self.method else None
        new = of_method.hyperparameters.chosen() if of_method else {}
        old = self.hyperparameters.chosen() if self.hyperparameters else {}
        for name in new.keys() & old.keys():
            if new[name] != old[name]:
                raise _invalid(
                    f"hyperparameters.{name}",
                    f"is {old[name]}, but method.supervised.hyperparameters.{name} is {new[name]}; "
                    f"give it once, under method",
                )
        return {**old, **new}

    def _refuse_what_is_not_here(self) -> None:
        if self.method is not None and self.method.type in REFUSED_METHODS:
            raise _invalid(
                "method.type", f"'{self.method.type}' is not available yet; use 'supervised'"
            )
        if self.method is not None and (self.method.dpo or self.method.reinforcement):
            raise _invalid(
                "method", "method.type is 'supervised', so only method.supervised is read"
            )
        if self.integrations:
            raise _invalid(
                "integrations", "are not supported; leave it out and read the job's events instead"
            )


def _invalid(path: str, message: str) -> ApiError:
    return refusal([Problem(path, message, "invalid_value")])
