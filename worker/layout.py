"""From a job to a run directory: its files, its base model and its last checkpoint, laid out on disk."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from core.models.catalog import UnknownModel
from core.spec.errors import RunFailure, data_failure, spec_failure
from core.spec.run import INPUTS_FOLDER, SPEC_FILE
from core.store.database import Session
from core.store.errors import Conflict, NotFound
from core.store.files import get_file
from core.store.leases import Lease
from core.store.models import find_model
from core.store.weights import whole_model
from worker.context import WorkerContext
from worker.fetch import Damaged, Fetch, fetch_file
from worker.keeper import LeaseKeeper
from worker.pen import patiently, store_unavailable
from worker.space import check_space, failing_when_full
from worker.stored_checkpoint import fetch_checkpoint

ATTEMPT = "attempt-"
Param = Literal["training_file", "validation_file", "model"]
Input = tuple[Param, Fetch]
"""A file, and the field of the spec that asks for it."""


def run_directory(context: WorkerContext, lease: Lease) -> Path:
    """Where this attempt is laid out."""
    return context.settings.runs_dir / lease.job_id / f"{ATTEMPT}{lease.attempt}"


def lay_out(context: WorkerContext, lease: Lease, keeper: LeaseKeeper) -> Path:
    """A fresh run directory for this attempt; those of earlier attempts are removed.

    Raises RunFailure if the user's file or the model is not there any more, or there is no room; and
    LeaseLost or WishHeard as soon as the job is not to be run here any more.
    """
    directory = run_directory(context, lease)
    shutil.rmtree(directory.parent, ignore_errors=True)
    with failing_when_full():
        (directory / INPUTS_FOLDER).mkdir(parents=True)
        wanted = patiently(
            lambda: list(_inputs(context, lease, directory)), keeper, "files not found"
        )
        check_space(directory, sum(fetch.file.bytes for _, fetch in wanted))
        for param, fetch in wanted:
            _fetch(context, lease, keeper, param, fetch)
        fetch_checkpoint(context, lease, keeper, directory)
        if lease.spec.base_model is None:
            _link_model(context, lease.spec.model, directory / INPUTS_FOLDER)
        (directory / SPEC_FILE).write_text(lease.spec.model_dump_json(indent=2) + "\n")
    keeper.heed()
    return directory


def remove_run(directory: Path) -> None:
    """The attempt is over and everything worth keeping is stored."""
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(OSError):  # A later attempt may be there already.
        directory.parent.rmdir()


def _inputs(context: WorkerContext, lease: Lease, directory: Path) -> Iterator[Input]:
    with context.database.begin() as session:
        params: tuple[Param, ...] = ("training_file", "validation_file")
        for param in params:
            file_id = getattr(lease.spec, param)
            if file_id is None:
                continue
            try:
                file = get_file(session, lease.project_id, file_id)
            except NotFound:
                raise _deleted(lease, param) from None
            yield param, Fetch(file, directory / INPUTS_FOLDER / file_id)
        if lease.spec.base_model is not None:
            yield from _weights(session, lease, directory / INPUTS_FOLDER / lease.spec.model)


def _weights(session: Session, lease: Lease, folder: Path) -> Iterator[Input]:
    """The tuned model that the job starts from."""
    try:
        model = find_model(session, lease.project_id, lease.spec.model)
        files = whole_model(session, model)
    except (NotFound, Conflict):
        raise _deleted(lease, "model") from None
    for file in files:
        yield "model", Fetch(file.file, folder / file.path)


def _fetch(
    context: WorkerContext, lease: Lease, keeper: LeaseKeeper, param: Param, fetch: Fetch
) -> None:
    try:
        fetch_file(context, keeper, fetch)
    except NotFound:
        raise _deleted(lease, param) from None
    except Damaged as found:
        raise store_unavailable(str(found)) from found


def _deleted(lease: Lease, param: Param) -> RunFailure:
    name = getattr(lease.spec, param)
    if param == "model":
        return spec_failure(
            "model_not_found",
            f"model '{name}' was deleted, or is no longer shared, before the job could read it",
            param=param,
            hint="start a new job from another model",
        )
    return data_failure(
        f"invalid_{param}",
        f"{param} '{name}' was deleted before the job could read it",
        param=param,
        hint="upload the file again and create a new job",
    )


def _link_model(context: WorkerContext, name: str, inputs: Path) -> None:
    try:
        folder = context.catalog.path(name)
    except UnknownModel as error:
        raise spec_failure(
            "model_not_found",
            f"{error} on worker {context.name}",
            param="model",
            hint="every worker needs the same models as the API",
        ) from None
    link = inputs / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder.resolve(), target_is_directory=True)
