"""A whole run, from a spec and a directory to a finished job: what command line and library share."""

from collections.abc import Callable
from pathlib import Path

from core.models.catalog import ModelUnusable
from core.models.load import load_tokenizer
from core.ranks import ALONE, Crew
from core.spec.errors import spec_failure
from core.spec.job import JobSpec
from core.spec.run import SPEC_FILE
from core.spec.tree import SpecError
from core.train.cache import CachePlace
from core.train.canary import fly_canary
from core.train.course import Course, device, own_folder
from core.train.heart import Heart
from core.train.inputs import model_facts, model_source
from core.train.job_rows import rows_of_job
from core.train.journal import Journal
from core.train.recovery import CheckpointDamaged, resumable
from core.train.stop import StopRequest
from core.train.stream import as_begun, planned


def run_job(
    spec: JobSpec,
    *,
    beside: Path,
    directory: Path,
    journal: Journal,
    stop: StopRequest,
    cache: CachePlace | None = None,
    crew: Crew = ALONE,
) -> bool:
    """Train ``spec`` in ``directory``, going on from its newest whole checkpoint.

    ``beside``: the folder in which the spec's names are looked for first. ``cache``: where encoded rows are
    kept for other runs. Returns whether all steps are done; False if ``stop`` was asked for.
    Raises RunFailure.
    """
    source = model_source(spec.model, beside)
    spec = _resolved(spec, source)
    checkpoint = _told(crew, lambda: resumable(directory, journal))
    if checkpoint is not None:
        spec = _as_begun(spec, checkpoint)
    tokenizer = load_tokenizer(source, spec.trainer.chat_template)
    train, held_out, files = rows_of_job(spec, beside, tokenizer, journal, cache)
    spec, plan = planned(spec, source, train, device(crew), journal)
    spec = crew.told(spec)  # each may have seen another amount of free memory
    heart = Heart(own_folder(directory, crew))
    course = Course(
        spec, source, tokenizer, train, held_out, directory, journal, heart, files, crew
    )
    if checkpoint is None and spec.trainer.canary:
        fly_canary(course, plan, stop)
    while True:
        try:
            return course.run(checkpoint, stop)
        except CheckpointDamaged as damaged:
            refused = damaged
            checkpoint = _told(crew, lambda: resumable(directory, journal, refused))  # noqa: B023 - called here


def _told(crew: Crew, find: Callable[[], Path | None]) -> Path | None:
    """What the leader finds: one looks, all go on from the same."""
    return crew.each(find() if crew.leads else None)[0]


def _resolved(spec: JobSpec, source: str) -> JobSpec:
    try:
        return spec.resolved(model_facts(source, spec.model))
    except SpecError as error:
        first = error.problems[0]
        raise spec_failure(first.code, first.message, param=first.path) from error
    except ModelUnusable as error:
        raise spec_failure("model_not_trainable", str(error), param="model") from error
    except OSError as error:
        raise spec_failure(
            "model_not_found",
            f"there is no model '{spec.model}': {str(error).splitlines()[0]}",
            param="model",
            hint="give a folder with config.json and safetensors weights, or a hub id",
        ) from error


def _as_begun(spec: JobSpec, checkpoint: Path) -> JobSpec:
    begun = JobSpec.model_validate_json((checkpoint / SPEC_FILE).read_bytes())
    spec = as_begun(spec, begun)
    if begun.on_devices(spec.trainer.parallel) != spec:
        raise spec_failure(
            "checkpoint_not_resumable",
            f"{checkpoint.parent.parent} holds a run of another spec",
            param="out",
            hint="give another --out, or the spec with which the run began",
        )
    return spec
