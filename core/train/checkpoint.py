"""Checkpoints: written aside, hashed, renamed. One that can be seen is whole.

A checkpoint is a model's folder that transformers loads as it is (of a LoRA job, an adapter's, which peft
loads), plus ``training_state.pt``: the optimizer's state and the number of steps done. The order of rows
and all random numbers are functions of that number, so nothing else is needed to go on as if nothing had
happened.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.models.adapter import FILES as ADAPTER_FILES
from core.spec.job import JobSpec
from core.spec.run import (
    CHECKPOINTS_FOLDER,
    MANIFEST_FILE,
    SPEC_FILE,
    Manifest,
    ManifestFile,
    checkpoint_name,
)
from core.train.weights import save_weights

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
) -> Path:
    """Write the checkpoint of ``step`` below the run ``directory``; returns its folder."""
    final = directory / CHECKPOINTS_FOLDER / checkpoint_name(step)
    partial = final.with_name(final.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        for folder in save_weights(model, spec.trainer, partial):
            tokenizer.save_pretrained(folder)
        (partial / SPEC_FILE).write_text(spec.model_dump_json(indent=2) + "\n")
        # Given a path, torch would hide why a write failed.
        with (partial / STATE_FILE).open("wb") as file:
            torch.save(dict(state), file)
        manifest = Manifest(step=step, files=[_described(p, partial) for p in _files(partial)])
        (partial / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n")
        for path in _files(partial):
            _sync(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    _sync(final.parent)
    return final


def latest_checkpoint(directory: Path) -> Path | None:
    """The folder of the newest checkpoint of a run that is whole, hashes and all."""
    folders = sorted((directory / CHECKPOINTS_FOLDER).glob("step-*"), reverse=True)
    return next((folder for folder in folders if is_whole(folder)), None)


def is_whole(folder: Path) -> bool:
    """Whether every file of the manifest is there with its size and hash."""
    if folder.name.endswith(PARTIAL) or not (folder / MANIFEST_FILE).exists():
        return False
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    except ValidationError:
        return False
    return all(
        (folder / file.path).exists() and _described(folder / file.path, folder) == file
        for file in manifest.files
    )


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
