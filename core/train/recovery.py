"""Which checkpoint a run goes on from: the newest that is whole, and becomes the state that was saved.

One that is damaged is told, and the one before it is taken; only where all are damaged does the run fail, for
to begin anew would throw away what its user has paid for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from core.ranks import ALONE, Crew
from core.spec.errors import ExitCode, JobError, RunFailure
from core.spec.trainer import TrainerSpec
from core.train.checkpoint import damaged_file, manifest_of, visible_checkpoints
from core.train.digest import state_digest, trained_weights
from core.train.journal import Journal


class CheckpointDamaged(RunFailure):
    """A checkpoint is not what was saved; ``what`` in it."""

    def __init__(self, folder: Path, what: str) -> None:
        self.folder = folder
        error = JobError(
            code="checkpoint_damaged",
            message=f"{what} of {folder.name} is not what was saved",
            param="out",
            fault="platform",
            retryable=True,
            hint="fetch the checkpoint again, or delete the run directory to begin anew",
        )
        super().__init__(error, ExitCode.unexpected)


def resumable(
    directory: Path, journal: Journal, refused: CheckpointDamaged | None = None
) -> Path | None:
    """The newest whole checkpoint, older than the one ``refused``; tells of each that is not.

    None where there never was one. Raises CheckpointDamaged where all are damaged.
    """
    first = refused
    for folder in visible_checkpoints(directory):
        if refused is not None and folder.name >= refused.folder.name:
            continue
        file = damaged_file(folder)
        if file is None:
            if first is not None:
                _tell(journal, first, folder)
            return folder
        first = first or CheckpointDamaged(folder, file)
    if first is not None:
        raise first
    return None


def check_loaded(
    folder: Path,
    model: PreTrainedModel,
    trainer: TrainerSpec,
    state: Mapping[str, Any],
    crew: Crew = ALONE,
) -> None:
    """Raise CheckpointDamaged, on every rank, unless what was loaded has the digest of what was saved."""
    manifest = manifest_of(folder)
    if manifest is None or manifest.digest is None:
        return
    weights = trained_weights(model, trainer)
    if crew.any(crew.leads and state_digest(weights, state) != manifest.digest):
        raise CheckpointDamaged(folder, "the state")


def _tell(journal: Journal, damaged: CheckpointDamaged, instead: Path) -> None:
    journal.note(
        "checkpoint.damaged",
        f"{damaged.error.message}: the run goes on from {instead.name}",
        checkpoint=damaged.folder.name,
        instead=instead.name,
    )
