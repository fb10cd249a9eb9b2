"""From what was typed after `castalia plan` to a JobPlan. Needs torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig
from transformers.utils import logging

from castalia.commands.plan import GIB, NoPlanError
from core.models.catalog import ModelUnusable
from core.models.load import load_tokenizer
from core.spec.errors import RunFailure
from core.spec.job import JobSpec
from core.spec.model import ModelFacts
from core.spec.plan import DataFacts, JobPlan
from core.spec.tree import SpecError
from core.streambp import StreamError
from core.streambp.plan import BudgetError
from core.train.forecast import bytes_of_inputs, job_plan, rows_known
from core.train.inputs import locate, model_facts, model_source
from core.train.planning import Planning
from core.train.shapes import Length


@dataclass(frozen=True, slots=True)
class Asked:
    """``document``: the words of a job, of the file ``job`` where there is one."""

    document: dict[str, Any]
    job: Path | None
    model: Path | None
    device_gib: float | None

    @property
    def beside(self) -> Path:
        """Where the job's names are looked for first."""
        return Path() if self.job is None else self.job.resolve().parent

    @property
    def leaves_context_open(self) -> bool:
        """Say whether the longest context is asked for: of a model by itself."""
        return self.job is None and "context_length" not in self.document["trainer"]


def planned(asked: Asked) -> JobPlan:
    """The plan. Raises NoPlanError with the field and the remedy."""
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    budget = None if asked.device_gib is None else int(asked.device_gib * GIB)
    try:
        return _plan(asked, budget)
    except SpecError as error:
        problem = error.problems[0]
        raise NoPlanError(f"{problem.path} is refused", problem.message) from error
    except RunFailure as failure:
        told = failure.error
        remedy = told.hint or "then plan again"
        raise NoPlanError(f"{told.param}: {told.message}", remedy) from failure
    except BudgetError as error:
        remedy = f"{error.remedy}; try --fused, --embeddings apollo or smaller chunks"
        raise NoPlanError(f"{asked.device_gib:g} GiB are too few", remedy) from error
    except StreamError as error:
        raise NoPlanError(f"{error.field} = {error.value!r}", str(error.remedy)) from error
    except ModelUnusable as error:
        raise NoPlanError("the model cannot be planned for", str(error)) from error
    except (ValueError, TypeError, RuntimeError) as error:  # of a foreign model's constructor
        raise NoPlanError("the model cannot be planned for", str(error)) from error


def _plan(asked: Asked, budget: int | None) -> JobPlan:
    named = {"model": str(asked.model), "training_file": "rows"} if asked.job is None else {}
    spec = JobSpec.parse(named | asked.document)
    source = str(asked.model) if asked.model else model_source(spec.model, asked.beside)
    config = _config(source, by_path=asked.model is not None)
    planning = Planning.of(spec.resolved(_facts(asked, source, config)), config, "cuda")
    if asked.leaves_context_open and budget is not None:
        planning = planning.at(planning.longest(budget))
    data, lengths = _rows(asked, planning, source)
    return job_plan(
        planning,
        budget_bytes=budget,
        data=data,
        lengths=lengths,
        input_bytes=bytes_of_inputs(planning.spec, asked.beside),
    )


def _facts(asked: Asked, source: str, config: PreTrainedConfig) -> ModelFacts:
    """Of a model by itself memory is asked, not what it was made for."""
    if asked.job is not None:
        folder = Path(source)
        return model_facts(str(folder.parent) if folder.is_file() else source, source)
    return ModelFacts(
        name=source, architecture=str(config.model_type), longest_context=None, vocabulary=1
    )


def _rows(
    asked: Asked, planning: Planning, source: str
) -> tuple[DataFacts | None, list[Length] | None]:
    """What the job's file holds; nothing where it is not here, as of one in a service."""
    if asked.job is None or not locate(planning.spec.training_file, asked.beside).is_file():
        return None, None
    return rows_known(
        planning, asked.beside, load_tokenizer(source, planning.spec.trainer.chat_template)
    )


def _config(source: str, *, by_path: bool) -> PreTrainedConfig:
    from transformers import AutoConfig  # noqa: PLC0415 - slow to import

    path = Path(source)
    if path.is_dir():
        path /= "config.json"
    if by_path and not path.is_file():
        raise NoPlanError(f"there is no file {path}", "give a model's folder or its config.json")
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            path if path.is_file() else source, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise NoPlanError(f"{source} cannot be read", str(error)) from error
    return config
