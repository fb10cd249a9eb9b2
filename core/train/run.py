"""A whole run, from a spec and a directory to a finished job: what command line and library share."""

from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.data.duplicates import SharedRows
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
from core.train.checkpoint import latest_checkpoint
from core.train.inputs import model_facts, model_source, read_rows_of, rows_in_both_files
from core.train.journal import Journal
from core.train.learner import Learner
from core.train.lessons import lesson_kind
from core.train.loop import Loop
from core.train.optimizer import build_optimizer
from core.train.stop import StopRequest
from core.train.stream import as_begun, streamed, with_chunk_length
from core.train.weights import trained_model


def run_job(
    spec: JobSpec, *, beside: Path, directory: Path, journal: Journal, stop: StopRequest
) -> bool:
    """Train ``spec`` in ``directory``, going on from its newest whole checkpoint.

    ``beside``: the folder in which the spec's names are looked for first. Returns whether all steps are
    done; False if ``stop`` was asked for. Raises RunFailure.
    """
    source = model_source(spec.model, beside)
    spec = _resolved(spec, source)
    checkpoint = latest_checkpoint(directory)
    if checkpoint is not None:
        spec = _as_begun(spec, checkpoint)
    tokenizer = load_tokenizer(source)
    train = _read(spec, "training_file", beside, tokenizer, journal)
    held_out: list[Any] = []
    if spec.validation_file is not None:
        held_out = _read(spec, "validation_file", beside, tokenizer, journal)
        _tell_shared(rows_in_both_files(spec, beside), journal)
    spec = with_chunk_length(spec, source, train, device(), journal)
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
        journal.started(loop.done, loop.total, len(train), layers)
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


def _read(
    spec: JobSpec, param: str, beside: Path, tokenizer: PreTrainedTokenizerBase, journal: Journal
) -> list[Any]:
    """A file's rows; tells what became of those that were too long."""
    found = read_rows_of(spec, param, beside, tokenizer)
    report = found.report
    if report.dropped or report.truncated or report.split or report.without_target:
        journal.note(
            "rows.changed",
            f"{param}: {report.kept} rows kept, {report.truncated} truncated, {report.split} split, "
            f"{report.dropped} dropped, {report.without_target} without a trained token",
            param=param,
            kept=report.kept,
            truncated=report.truncated,
            split=report.split,
            dropped=report.dropped,
            without_target=report.without_target,
        )
    if len(found.rows) < report.kept:
        journal.note(
            "rows.packed",
            f"{param}: {report.kept} rows stand in {len(found.rows)} of at most "
            f"{spec.trainer.context_length} tokens",
            level="info",
            param=param,
            rows=report.kept,
            packed=len(found.rows),
        )
    return found.rows


def _tell_shared(shared: SharedRows, journal: Journal) -> None:
    if shared.count:
        pairs = ", ".join(f"{line} = {other}" for line, other in shared.pairs)
        journal.note(
            "rows.in_both_files",
            f"{shared.count} rows of the training file stand in the validation file too, which then "
            f"measures what was memorised; lines {pairs}",
            rows=shared.count,
        )


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
