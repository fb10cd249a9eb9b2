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

from core.spec.errors import ExitCode, JobError, RunFailure, spec_failure
from core.spec.job import JobSpec
from core.spec.run import KEPT_FOLDER
from core.spec.trainer import StreamSpec
from core.streambp import Attachment, StreamError, attach
from core.streambp.plan import GIB, busy_tokens
from core.train.journal import Journal
from core.train.memory import Planned, plan_run


def as_begun(spec: JobSpec, begun: JobSpec) -> JobSpec:
    """``spec`` with the chunk length of the run that it resumes, where it leaves that open."""
    if spec.trainer.stream.chunk_tokens != "auto":
        return spec
    return _with(spec, begun.trainer.stream.chunk_tokens)


def planned(
    spec: JobSpec, source: str, rows: Sequence[Any], device: torch.device, journal: Journal
) -> tuple[JobSpec, Planned | None]:
    """The resolved ``spec`` with a number for ``auto``, the best for ``rows`` on ``device`` now.

    With it the plan, if one can be made. Raises RunFailure, kind capacity, where it does not fit.
    """
    auto = spec.trainer.stream.chunk_tokens == "auto"
    try:
        plan = plan_run(spec, source, rows, device)
    except StreamError as error:
        return (_unplanned(spec, device, error, journal) if auto else spec), None
    tokens = plan.model.chunk_tokens
    if auto:
        journal.note(
            "chunk_tokens.chosen",
            f"layers see {tokens} tokens at once; {plan.free / GIB:.1f} GiB are free",
            level="info",
            chunk_tokens=tokens,
            free_bytes=plan.free,
        )
    return _with(spec, tokens), plan


def _unplanned(
    spec: JobSpec, device: torch.device, error: StreamError, journal: Journal
) -> JobSpec:
    tokens = busy_tokens(device.type)
    journal.note(
        "chunk_tokens.unplanned",
        f"no memory plan can be made, so layers see {tokens} tokens at once: {error.remedy}",
        chunk_tokens=tokens,
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
