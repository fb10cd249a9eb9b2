"""A whole run, from a spec and a directory to a finished job: what command line and library share."""

from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from core.data.order import steps as ordered_steps
from core.models.catalog import ModelUnusable
from core.models.load import load_tokenizer
from core.spec.errors import spec_failure
from core.spec.job import JobSpec
from core.spec.objective import updates_per_batch
from core.spec.run import SPEC_FILE
from core.spec.tree import SpecError
from core.streambp import attachment_of
from core.train.base import base_of
from core.train.cache import CachePlace
from core.train.checkpoint import latest_checkpoint
from core.train.inputs import model_facts, model_source
from core.train.job_rows import rows_of_job
from core.train.journal import Journal
from core.train.learner import Learner
from core.train.lessons import lesson_kind
from core.train.loop import Loop
from core.train.optimizer import build_optimizer
from core.train.stop import StopRequest
from core.train.stream import as_begun, streamed, with_chunk_length
from core.train.weights import trained_model


def run_job(
    spec: JobSpec,
    *,
    beside: Path,
    directory: Path,
    journal: Journal,
    stop: StopRequest,
    cache: CachePlace | None = None,
) -> bool:
    """Train ``spec`` in ``directory``, going on from its newest whole checkpoint.

    ``beside``: the folder in which the spec's names are looked for first. ``cache``: where encoded rows are
    kept for other runs. Returns whether all steps are
    done; False if ``stop`` was asked for. Raises RunFailure.
    """
    source = model_source(spec.model, beside)
    spec = _resolved(spec, source)
    checkpoint = latest_checkpoint(directory)
    if checkpoint is not None:
        spec = _as_begun(spec, checkpoint)
    tokenizer = load_tokenizer(source)
    train, held_out, files = rows_of_job(spec, beside, tokenizer, journal, cache)
    spec = with_chunk_length(spec, source, [len(row) for row in train], device(), journal)
    model = trained_model(spec, source, checkpoint, device())
    numbers = spec.hyperparameters
    with streamed(model, spec.trainer.stream, directory, journal) as layers:
        train, held_out = (_kept_apart(rows, spec, model, journal) for rows in (train, held_out))
        lesson = lesson_kind(spec)(
            spec, model, tokenizer, train, held_out, base_of(spec, source, model)
        )
        for remark in lesson.remarks():
            journal.note(remark.code, remark.message)
        loop = Loop(
            spec,
            directory=directory,
            learner=Learner(spec, lesson, build_optimizer(spec, model)),
            steps=ordered_steps(
                len(train),
                numbers.batch_size,
                numbers.n_epochs,
                spec.seed,
                spec.trainer.max_steps,
                updates_per_batch(spec.trainer.objective),
            ),
            journal=journal,
        )
        if checkpoint is not None:
            loop.resume(checkpoint)
        else:
            lesson.begin()
        journal.started(loop.done, loop.total, len(train), layers, files)
        _tell_step(spec, journal)
        with closing(lesson):
            return loop.run(stop)


def device() -> torch.device:
    """The GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


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
    if begun != spec:
        raise spec_failure(
            "checkpoint_not_resumable",
            f"{checkpoint.parent.parent} holds a run of another spec",
            param="out",
            hint="give another --out, or the spec with which the run began",
        )
    return spec


def _tell_step(spec: JobSpec, journal: Journal) -> None:
    message = "weights are stepped after the backward pass, when all gradients are there"
    if spec.trainer.step == "fused":
        message = (
            "weights are stepped inside the backward pass: one layer's gradients exist at once"
        )
    journal.note("step.chosen", message, level="info", step=spec.trainer.step)


def _kept_apart(
    rows: list[Any], spec: JobSpec, model: PreTrainedModel, journal: Journal
) -> list[Any]:
    """The rows, unpacked where the attached ``model`` would mix documents."""
    mixing = attachment_of(model).mixing
    apart = lesson_kind(spec).apart(rows) if mixing else rows
    if len(apart) != len(rows):
        journal.note(
            "packing.off",
            f"rows are not packed: {mixing[0]} would mix documents that stand in one row",
            rows=len(apart),
            layer=mixing[0],
        )
    return apart
