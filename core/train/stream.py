"""The spec's words on streaming, carried out: the chunk length, what is kept where, and what is told.

The rounding of gradients depends on the chunk length. So ``auto`` becomes a number before the weights are
loaded, that number is part of the spec in every checkpoint, and a resumed run takes it from there, whatever
memory is free by then.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from core.models.load import load_config
from core.spec.errors import ExitCode, JobError, RunFailure, spec_failure
from core.spec.job import JobSpec
from core.spec.run import KEPT_FOLDER
from core.spec.trainer import StreamSpec
from core.streambp import Attachment, StreamError, attach
from core.streambp.plan import GIB, BudgetError, busy_tokens, free_bytes
from core.train.journal import Journal
from core.train.planning import Planning


def as_begun(spec: JobSpec, begun: JobSpec) -> JobSpec:
    """``spec`` with the chunk length of the run that it resumes, where it leaves that open."""
    if spec.trainer.stream.chunk_tokens != "auto":
        return spec
    return _with(spec, begun.trainer.stream.chunk_tokens)


def with_chunk_length(
    spec: JobSpec, source: str, rows: Sequence[Any], device: torch.device, journal: Journal
) -> JobSpec:
    """The resolved ``spec`` with a number for ``auto``: the best for ``rows`` on ``device`` now.

    Raises RunFailure, kind capacity, where the plan fits with no chunk length.
    """
    if spec.trainer.stream.chunk_tokens != "auto":
        return spec
    free = free_bytes(device)
    try:
        planning = Planning.of(spec, load_config(source), device.type)
        tokens = planning.best(planning.lengths(rows), free).chunk_tokens
    except BudgetError as error:
        raise _too_much(error) from error
    except StreamError as error:
        tokens = busy_tokens(device.type)
        journal.note(
            "chunk_tokens.unplanned",
            f"no memory plan can be made, so layers see {tokens} tokens at once: {error.remedy}",
            chunk_tokens=tokens,
        )
    else:
        journal.note(
            "chunk_tokens.chosen",
            f"layers see {tokens} tokens at once; {free / GIB:.1f} GiB are free",
            level="info",
            chunk_tokens=tokens,
            free_bytes=free,
        )
    return _with(spec, tokens)


@contextmanager
def streamed(
    model: PreTrainedModel, stream: StreamSpec, directory: Path, journal: Journal
) -> Iterator[dict[str, int]]:
    """Stream ``model`` inside the block, and count its layers by how they are run.

    What is stored on disk lies in a folder of the run's, which is gone afterwards. Raises RunFailure.
    """
    folder = _made(directory / KEPT_FOLDER) if stream.store == "disk" else None
    try:
        with _attached(model, stream, folder) as attached:
            yield _told(attached, journal)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _with(spec: JobSpec, tokens: int | str) -> JobSpec:
    stream = spec.trainer.stream.model_copy(update={"chunk_tokens": tokens})
    return spec.model_copy(update={"trainer": spec.trainer.model_copy(update={"stream": stream})})


def _too_much(error: BudgetError) -> RunFailure:
    return RunFailure(
        JobError(
            code="memory_plan_exceeded",
            message=f"the memory that is free does not suffice: {error.remedy}",
            param="trainer.context_length",
            fault="capacity",
            hint="lower trainer.context_length or tokens_per_pass, store what layers keep elsewhere, "
            "or give a number as trainer.stream.chunk_tokens to try without a plan",
        ),
        ExitCode.out_of_memory,
    )


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RunFailure(
            JobError(
                code="store_not_writable",
                message=f"{folder} cannot be made: {error.strerror}",
                param="trainer.stream.store",
                fault="platform",
                hint="give a run directory that can be written to, or another store than disk",
            ),
            ExitCode.disk,
        ) from error
    return folder


def _attached(model: PreTrainedModel, stream: StreamSpec, folder: Path | None) -> Attachment:
    assert stream.chunk_tokens != "auto"
    try:
        return attach(
            model,
            chunk_tokens=stream.chunk_tokens,
            keep=stream.keep,
            store=stream.store,
            folder=folder,
        )
    except StreamError as error:
        param = "trainer.stream" if error.field in {"keep", "store", "folder"} else "model"
        raise spec_failure("model_not_streamable", str(error), param=param) from error


def _told(attached: Attachment, journal: Journal) -> dict[str, int]:
    """Tell what is done otherwise than was asked for; the layers by how they are run."""
    if attached.remark:
        journal.note("stream.policy", attached.remark)
    whole = defaultdict(list)
    for layer in attached.layers:
        if layer.status == "checkpointed":
            whole[layer.reason].append(layer.name)
    for reason, names in whole.items():
        journal.note(
            "layers.checkpointed",
            f"not streamed but checkpointed whole, which needs more memory: {', '.join(names)}: {reason}",
            layers=len(names),
            names=", ".join(names),
            reason=reason,
        )
    count = sum(map(len, whole.values()))
    return {"streamed": len(attached.layers) - count, "checkpointed": count}
