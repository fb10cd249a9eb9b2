"""The checkpoint that a run goes on from, out of the artifact store: the newest of which every byte is right.

One that is damaged there is told, and the one before it is taken; only where all are does the attempt fail:
to begin anew would throw away what its user has paid for.
"""

import shutil
from pathlib import Path

from core.spec.errors import ExitCode, JobError, RunFailure
from core.spec.run import CHECKPOINTS_FOLDER, checkpoint_name
from core.store.checkpoints import checkpoint_files, checkpoints_of
from core.store.errors import NotFound
from core.store.leases import Lease
from core.store.remarks import tell_damaged
from core.store.tables import CheckpointRow, FileRow
from worker.context import WorkerContext
from worker.fetch import Damaged, Fetch, fetch_file
from worker.keeper import LeaseKeeper
from worker.pen import Pen, patiently, store_unavailable
from worker.space import check_space

Stored = list[tuple[CheckpointRow, list[FileRow]]]


def fetch_checkpoint(
    context: WorkerContext, lease: Lease, keeper: LeaseKeeper, directory: Path
) -> None:
    """Lay the newest right checkpoint out below the run ``directory``; nothing where there never was one.

    Raises RunFailure where all are damaged, or there is no room; LeaseLost, WishHeard.
    """
    stored = patiently(lambda: _stored(context, lease), keeper, "checkpoints not found")
    damage: list[tuple[int, Damaged]] = []
    for row, files in stored:
        folder = directory / CHECKPOINTS_FOLDER / checkpoint_name(row.step)
        check_space(directory, sum(file.bytes for file in files))
        try:
            for file in files:
                _fetch(context, keeper, Fetch(file, folder / file.filename))
        except Damaged as found:
            damage.append((row.step, found))
            shutil.rmtree(folder)
            continue
        _tell(Pen(context.database, keeper), lease, damage, row.step)
        return
    if damage:
        raise _all_damaged(damage)


def _stored(context: WorkerContext, lease: Lease) -> Stored:
    with context.database.begin() as session:
        rows = checkpoints_of(session, lease.job_id)
        files = checkpoint_files(session, [row.id for row in rows])
    return [(row, files[row.id]) for row in rows]


def _fetch(context: WorkerContext, keeper: LeaseKeeper, fetch: Fetch) -> None:
    try:
        fetch_file(context, keeper, fetch, wait_if_gone=False)
    except NotFound as error:
        raise Damaged(fetch.file, "is not stored any more") from error


def _tell(pen: Pen, lease: Lease, damage: list[tuple[int, Damaged]], instead: int) -> None:
    for step, found in damage:
        what = str(found)
        pen.write(
            lambda session, step=step, what=what: tell_damaged(  # type: ignore[misc]
                session, lease, step=step, what=what, instead=instead
            )
        )


def _all_damaged(damage: list[tuple[int, Damaged]]) -> RunFailure:
    """A store that has lost its objects may only be away, as one that is not mounted."""
    said = "; ".join(f"of step {step} {found}" for step, found in damage)
    if any(found.gone for _, found in damage):
        return store_unavailable(said)
    return RunFailure(
        JobError(
            code="checkpoint_damaged",
            message=f"no checkpoint in the artifact store is what was saved: {said}",
            fault="platform",
            retryable=True,
            hint="look after the store that CASTALIA_ARTIFACTS_URL names, or create the job anew",
        ),
        ExitCode.unexpected,
    )
