"""JobSpec: the whole of what a user asked for, with every default filled in.

The API resolves a request into it, the database row stores it, the worker hands it to the trainer as
``spec.json``, the library takes it as its argument and it lies beside the weights. No second copy.
"""

from typing import Any, Self

from pydantic import Field

from core.spec.agreement import check_agreement
from core.spec.model import ModelFacts
from core.spec.parallel import ParallelSpec
from core.spec.problems import Problem
from core.spec.spreading import check_parallel
from core.spec.stepping import check_precision, chosen_step
from core.spec.trainer import LARGEST_LEARNING_RATE, TrainerSpec
from core.spec.tree import Spec, SpecError

DEFAULT_CONTEXT = 8192
LARGEST_SEED = 2_147_483_647


class Hyperparameters(Spec):
    """The numbers that OpenAI's API also knows, under its names and within its bounds."""

    n_epochs: int = Field(3, ge=1, le=50, description="Times that every row is trained on.")
    batch_size: int = Field(8, ge=1, le=256, description="Rows in one optimizer step.")
    learning_rate_multiplier: float = Field(
        1.0, gt=0.0, le=1e4, description="Multiplies the optimizer's base learning rate."
    )


class JobSpec(Spec):
    """One fine-tuning job.

    ``model``, ``training_file`` and ``validation_file`` are names: ids in the service, paths on the
    command line. A trainer looks for a name under ``inputs/`` beside the spec first.
    """

    model: str = Field(min_length=1, max_length=512, description="The model to train on from.")
    base_model: str | None = Field(
        None,
        min_length=1,
        max_length=512,
        description="Set by the service where model is a tuned one: the base model it was made from.",
    )
    training_file: str = Field(min_length=1, max_length=4096, description="The rows to learn.")
    validation_file: str | None = Field(
        None, min_length=1, max_length=4096, description="Rows that are only measured."
    )
    seed: int = Field(
        0, ge=0, le=LARGEST_SEED, description="Decides the order of rows and every projection."
    )
    hyperparameters: Hyperparameters = Hyperparameters()
    trainer: TrainerSpec = TrainerSpec()

    @property
    def base(self) -> str:
        """The base model, whose configuration the trained one has."""
        return self.base_model or self.model

    def on_devices(self, parallel: ParallelSpec) -> Self:
        """The same job on other devices: no result depends on them."""
        trainer = self.trainer.model_copy(update={"parallel": parallel})
        return self.model_copy(update={"trainer": trainer})

    def resolved(self, facts: ModelFacts) -> Self:
        """This spec with every open value filled in for the model of ``facts``.

        Resolving twice changes nothing. Raises SpecError for what the model cannot do.
        """
        trainer = self.trainer
        limit = facts.longest_context
        context = trainer.context_length or min(limit or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        if limit is not None and context > limit:
            raise SpecError([_beyond_the_model(context, limit, facts.name)])
        check_agreement(trainer, validated=self.validation_file is not None)
        check_precision(trainer)
        check_parallel(trainer, self.hyperparameters.batch_size)
        tokens = trainer.tokens_per_pass or context
        filled = trainer.model_copy(
            update={
                "context_length": context,
                "learning_rate": trainer.learning_rate or self._multiplied_rate(),
                **_by_objective(trainer),
                "tokens_per_pass": tokens,
                "step": chosen_step(trainer, self.hyperparameters.batch_size * context, tokens),
            }
        )
        return self.model_copy(update={"trainer": filled})

    def _multiplied_rate(self) -> float:
        multiplier = self.hyperparameters.learning_rate_multiplier
        base = self.trainer.optimizer.base_learning_rate * self.trainer.objective.rate_share
        if not 0.0 < multiplier * base <= LARGEST_LEARNING_RATE:
            raise SpecError([_absurd_multiplier(multiplier, base)])
        return multiplier * base


def _by_objective(trainer: TrainerSpec) -> dict[str, Any]:
    """What an objective's recipe says where the user says nothing."""
    plain = trainer.objective.kind == "pretrain"
    return {
        "on_overlength": trainer.on_overlength or ("split" if plain else "error"),
        "packing": plain if trainer.packing is None else trainer.packing,
    }


def _beyond_the_model(context: int, limit: int, model: str) -> Problem:
    return Problem(
        "trainer.context_length",
        f"{context} is beyond the {limit} tokens that {model} was made for; "
        f"set trainer.context_length to at most {limit}",
        "context_length_exceeded",
    )


def _absurd_multiplier(multiplier: float, base: float) -> Problem:
    return Problem(
        "hyperparameters.learning_rate_multiplier",
        f"{multiplier} times the optimizer's base rate {base} is no learning rate above 0 and "
        f"at most {LARGEST_LEARNING_RATE}; choose a multiplier nearer to 1",
        "invalid_value",
    )
