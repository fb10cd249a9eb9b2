"""From a job to a run directory: its files, its base model and its last checkpoint, laid out on disk."""

import shutil
from pathlib import Path

from core.models.catalog import UnknownModel
from core.spec.errors import data_failure, spec_failure
from core.spec.run import CHECKPOINTS_FOLDER, INPUTS_FOLDER, SPEC_FILE, checkpoint_name
from core.store.checkpoints import checkpoint_files, latest_checkpoint
from core.store.errors import NotFound
from core.store.files import get_file
from core.store.leases import Lease
from worker.context import WorkerContext


def lay_out(context: WorkerContext, lease: Lease) -> Path:
    """A fresh run directory for this attempt; those of earlier attempts are removed.

    Raises RunFailure if the user's file or the model is not there any more.
    """
    runs_of_job = context.settings.runs_dir / lease.job_id
    shutil.rmtree(runs_of_job, ignore_errors=True)
    directory = runs_of_job / f"attempt-{lease.attempt}"
    inputs = directory / INPUTS_FOLDER
    inputs.mkdir(parents=True)
    for param in ("training_file", "validation_file"):
        file_id = getattr(lease.spec, param)
        if file_id is not None:
            _fetch_input(context, lease, param, file_id, inputs)
    _link_model(context, lease.spec.model, inputs)
    _fetch_checkpoint(context, lease, directory)
    (directory / SPEC_FILE).write_text(lease.spec.model_dump_json(indent=2) + "\n")
    return directory


def remove_run(context: WorkerContext, lease: Lease) -> None:
    """The run is over and everything worth keeping is stored."""
    shutil.rmtree(context.settings.runs_dir / lease.job_id, ignore_errors=True)


def _fetch_input(
    context: WorkerContext, lease: Lease, param: str, file_id: str, inputs: Path
) -> None:
    try:
        with context.database.begin() as session:
            blob_id = get_file(session, lease.project_id, file_id).blob_id
        _fetch(context, blob_id, inputs / file_id)
    except NotFound:
        raise data_failure(
            f"invalid_{param}",
            f"{param} '{file_id}' was deleted before the job could read it",
            param=param,
            hint="upload the file again and create a new job",
        ) from None


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


def _fetch_checkpoint(context: WorkerContext, lease: Lease, directory: Path) -> None:
    with context.database.begin() as session:
        checkpoint = latest_checkpoint(session, lease.job_id)
        if checkpoint is None:
            return
        files = checkpoint_files(session, [checkpoint.id])[checkpoint.id]
    folder = directory / CHECKPOINTS_FOLDER / checkpoint_name(checkpoint.step)
    for file in files:
        _fetch(context, file.blob_id, folder / file.filename)


def _fetch(context: WorkerContext, blob_id: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        out.writelines(context.blobs.read(blob_id))
