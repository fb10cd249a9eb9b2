"""Where the weights of a chat's model come from: a base model's folder, or stored files laid out beside."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.spec.adapter import LoraSpec
from core.spec.chat import ChatWeights
from core.store.database import Session
from core.store.errors import Conflict
from core.store.jobs import spec_of
from core.store.models import TUNED_PREFIX, find_model
from core.store.weights import ModelFile, adapter_files, whole_model
from worker.context import WorkerContext

MODEL_FOLDER, ADAPTER_FOLDER = "model", "adapter"


@dataclass(frozen=True, slots=True)
class ChatSource:
    """A model that may be used. ``key`` tells it from every other.

    Its weights are the base model ``base`` or the files ``whole``; an adapter's files come on top.
    """

    key: str
    base: str | None = None
    whole: Sequence[ModelFile] = ()
    adapter: Sequence[ModelFile] = ()
    lora: dict[str, Any] | None = None


def chat_source(context: WorkerContext, project_id: str, name: str) -> ChatSource:
    """What a project means by a model's name. Raises NotFound."""
    if not name.startswith(TUNED_PREFIX):
        return ChatSource(key=name, base=name)
    with context.database.begin() as session:
        return _tuned(session, project_id, name)


def _tuned(session: Session, project_id: str, name: str) -> ChatSource:
    model = find_model(session, project_id, name)
    try:
        return ChatSource(key=model.checkpoint.id, whole=whole_model(session, model))
    except Conflict:
        spec = spec_of(model.job)
    adapter = spec.trainer.adapter
    assert isinstance(adapter, LoraSpec), "only its checkpoints hold no weights"
    base = ChatSource(key=spec.model, base=spec.model)
    if spec.base_model is not None:
        base = _tuned(session, model.job.project_id, spec.model)
    return ChatSource(
        key=model.checkpoint.id,
        base=base.base,
        whole=base.whole,
        adapter=adapter_files(session, model),
        lora=adapter.model_dump(mode="json"),
    )


def lay_weights_out(context: WorkerContext, source: ChatSource, folder: Path) -> ChatWeights:
    """Bring the weights onto this machine's disk, below ``folder``, as far as they are not there.

    Raises ModelUnusable, NotFound if a file was deleted meanwhile, ArtifactsDown.
    """
    model = folder / MODEL_FOLDER
    if source.base is not None:
        model = context.catalog.path(source.base).resolve()
    _fetch(context, source.whole, folder / MODEL_FOLDER)
    _fetch(context, source.adapter, folder / ADAPTER_FOLDER)
    return ChatWeights(
        folder=str(model.absolute()),
        adapter=str((folder / ADAPTER_FOLDER).absolute()) if source.adapter else None,
        lora=source.lora,
    )


def _fetch(context: WorkerContext, files: Sequence[ModelFile], folder: Path) -> None:
    for file in files:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            for piece in context.blobs.read(file.file.blob_id):
                out.write(piece)
