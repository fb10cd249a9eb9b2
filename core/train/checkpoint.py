"""Checkpoints: written aside, hashed, renamed. One that can be seen is whole.

A checkpoint is a model's folder that transformers loads as it is (of a LoRA job, an adapter's, which peft
loads), plus ``training_state.pt``: the optimizer's state and the number of steps done. The order of rows
and all random numbers are functions of that number, so nothing else is needed to go on as if nothing had
happened. Its manifest holds the hashes of its files, and a digest of the state that they are to become again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.models.adapter import FILES as ADAPTER_FILES
from core.ranks import ALONE, Crew
from core.spec.errors import RunFailure, spec_failure
from core.spec.job import JobSpec
from core.spec.run import (
    CHECKPOINT_FORMAT,
    CHECKPOINTS_FOLDER,
    MANIFEST_FILE,
    SPEC_FILE,
    Manifest,
    ManifestFile,
    checkpoint_name,
)
from core.train.digest import state_digest, tensor_bytes, trained_weights
from core.train.disk import BESIDE_TENSORS, disk_is_full, no_room, refuse_without_room
from core.train.weights import save_weights, saved_bytes

STATE_FILE = "training_state.pt"
PARTIAL = ".partial"
WEIGHTS_KINDS = (".safetensors", ".safetensors.index.json")
MODEL_FILES = ("config.json", "generation_config.json")


def save_checkpoint(
    directory: Path,
    *,
    step: int,
    spec: JobSpec,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    state: Mapping[str, Any],
    crew: Crew = ALONE,
) -> Path:
    """Write the checkpoint of ``step`` below the run ``directory``; returns its folder.

    Every rank of a crew calls it, and returns when the leader has written. Raises RunFailure where there is
    no room for it; then nothing of it is left.
    """
    weights = trained_weights(model, spec.trainer)
    if crew.leads:
        _write(directory, step, spec, model, tokenizer, state, weights, crew)
    crew.each(None)
    return directory / CHECKPOINTS_FOLDER / checkpoint_name(step)


def _write(  # noqa: PLR0917 - what a checkpoint is made of
    directory: Path,
    step: int,
    spec: JobSpec,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    state: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    crew: Crew,
) -> None:
    needed = saved_bytes(model, spec.trainer) + tensor_bytes(state) + BESIDE_TENSORS
    refuse_without_room(directory, needed)
    final = directory / CHECKPOINTS_FOLDER / checkpoint_name(step)
    partial = final.with_name(final.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        whole = weights if crew.size > 1 else None
        for folder in save_weights(model, spec.trainer, partial, whole):
            tokenizer.save_pretrained(folder)
        (partial / SPEC_FILE).write_text(spec.model_dump_json(indent=2) + "\n")
        # Given a path, torch would hide why a write failed.
        with (partial / STATE_FILE).open("wb") as file:
            torch.save(dict(state), file)
        manifest = Manifest(
            step=step,
            files=[_described(p, partial) for p in _files(partial)],
            format=CHECKPOINT_FORMAT,
            digest=state_digest(weights, state),
        )
        (partial / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n")
        for path in _files(partial):
            _sync(path)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if disk_is_full(error):
            raise no_room(directory, needed) from error
        raise
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    _sync(final.parent)


def visible_checkpoints(directory: Path) -> list[Path]:
    """The folders of a run's checkpoints, whole or not, newest first."""
    folders = sorted((directory / CHECKPOINTS_FOLDER).glob("step-*"), reverse=True)
    return [folder for folder in folders if not folder.name.endswith(PARTIAL)]


def latest_checkpoint(directory: Path) -> Path | None:
    """The folder of the newest checkpoint of a run that is whole, hashes and all."""
    return next((folder for folder in visible_checkpoints(directory) if is_whole(folder)), None)


def is_whole(folder: Path) -> bool:
    """Whether every file of the manifest is there with its size and hash."""
    return damaged_file(folder) is None


def damaged_file(folder: Path) -> str | None:
    """The first file that is not as the manifest says, or the manifest; None: the checkpoint is whole."""
    manifest = manifest_of(folder)
    if manifest is None:
        return MANIFEST_FILE
    for file in manifest.files:
        path = folder / file.path
        if not path.exists() or _described(path, folder) != file:
            return file.path
    return None


def manifest_of(folder: Path) -> Manifest | None:
    """A checkpoint's manifest, if there is one that can be read. Raises RunFailure for a newer format."""
    try:
        content = json.loads((folder / MANIFEST_FILE).read_bytes())
        found = content.get("format", 1) if isinstance(content, dict) else 1
        if isinstance(found, int) and found > CHECKPOINT_FORMAT:
            raise _too_new(folder, found)
        return Manifest.model_validate(content)
    except (OSError, ValueError):
        return None


def load_state(folder: Path) -> dict[str, Any]:
    """What was given as ``state`` when the checkpoint was saved; no pickled code is run."""
    state: dict[str, Any] = torch.load(folder / STATE_FILE, map_location="cpu", weights_only=True)
    return state


def drop_old(newest: Path, keep_last: int, best_step: int | None = None) -> None:
    """Remove all checkpoints of a run but ``newest``, the ``keep_last`` - 1 before it, and the best one.

    What lies beyond ``newest`` was not whole, or the run would have gone on from there.
    """
    folders = sorted(newest.parent.glob("step-*"))
    visible = [folder for folder in folders if not folder.name.endswith(PARTIAL)]
    kept = [folder for folder in visible if folder.name <= newest.name][-keep_last:]
    if best_step is not None:
        kept.append(newest.with_name(checkpoint_name(best_step)))
    for folder in folders:
        if folder not in kept:
            _remove(folder)


def _too_new(folder: Path, found: int) -> RunFailure:
    return spec_failure(
        "checkpoint_not_resumable",
        f"{folder} has format {found}, and this version of Castalia reads formats up to "
        f"{CHECKPOINT_FORMAT}",
        param="out",
        hint=f"go on with a version of Castalia that writes checkpoints of format {found}",
    )


def _remove(folder: Path) -> None:
    hidden = folder.with_name(folder.name.removesuffix(PARTIAL) + PARTIAL)
    shutil.rmtree(folder.rename(hidden))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _described(path: Path, folder: Path) -> ManifestFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ManifestFile(
        path=path.relative_to(folder).as_posix(),
        kind=_kind(path.name),
        bytes=path.stat().st_size,
        sha256=digest,
    )


def _kind(name: str) -> str:
    if name == STATE_FILE:
        return "state"
    if name == SPEC_FILE:
        return "spec"
    if name in ADAPTER_FILES:
        return "adapter"
    if name in MODEL_FILES:
        return "config"
    return "weights" if name.endswith(WEIGHTS_KINDS) else "tokenizer"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
