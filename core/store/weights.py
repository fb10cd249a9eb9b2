"""Which files of a checkpoint make up a model that can be loaded, and where each belongs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from core.store.checkpoints import checkpoint_files
from core.store.errors import Conflict
from core.store.models import TunedModel
from core.store.tables import FileRow

MODEL_KINDS = ("weights", "config", "tokenizer")
ADAPTER_KIND = "adapter"
MERGED = "merged/"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A stored file, and its path in the model's folder."""

    path: str
    file: FileRow


def whole_model(session: Session, model: TunedModel) -> list[ModelFile]:
    """The files of ``model`` as a folder that holds all weights: what a job can start from.

    Of a job with an adapter those of the merged model. Raises Conflict where only the adapter was kept.
    """
    files = _files(session, model)
    if not _is_adapter(files):
        return [ModelFile(file.filename, file) for file in files if file.kind in MODEL_KINDS]
    merged = [file for file in files if file.filename.startswith(MERGED)]
    if not merged:
        raise Conflict(
            f"the model '{model.name}' is an adapter, of which the merged weights were not kept; train it "
            "anew with trainer.adapter.merge: true, and start from that",
            "model_not_trainable",
        )
    return [ModelFile(file.filename.removeprefix(MERGED), file) for file in merged]


def adapter_files(session: Session, model: TunedModel) -> list[ModelFile]:
    """The files of the adapter and its tokenizer; none where all weights were trained."""
    files = _files(session, model)
    if not _is_adapter(files):
        return []
    kinds = (ADAPTER_KIND, "tokenizer")
    own = [file for file in files if file.kind in kinds and not file.filename.startswith(MERGED)]
    return [ModelFile(file.filename, file) for file in own]


def _files(session: Session, model: TunedModel) -> Sequence[FileRow]:
    return checkpoint_files(session, [model.checkpoint.id])[model.checkpoint.id]


def _is_adapter(files: Sequence[FileRow]) -> bool:
    return any(file.kind == ADAPTER_KIND for file in files)
