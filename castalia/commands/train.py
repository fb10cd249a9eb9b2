"""`castalia train SPEC --out DIR`: the same as `python -m core.train`, without any service."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from castalia.errors import CastaliaError
from core.spec.run import CACHE_BYTES


class TorchMissingError(CastaliaError):
    """This host has the service but not the trainer."""


def train(
    spec: Annotated[Path, typer.Argument(help="A JobSpec as JSON.")],
    out: Annotated[Path, typer.Option(help="The run directory; a run in it goes on.")],
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of encoded rows, kept for other runs; else in the user's cache."),
    ] = None,
    cache_bytes: Annotated[
        int, typer.Option(min=0, help="The most that is kept there; 0: nothing.")
    ] = CACHE_BYTES,
) -> None:
    """Train on this machine; runs until done, or until Ctrl-C, which saves a checkpoint."""
    if find_spec("torch") is None:
        raise TorchMissingError("torch is not installed here", "pip install 'castalia[train]'")
    command = [sys.executable, "-P", "-m", "core.train", str(spec), "--out", str(out)]
    command += ["--cache", str(cache or user_cache()), "--cache-bytes", str(cache_bytes)]
    os.execv(sys.executable, command)  # noqa: S606 - the same process goes on as the trainer


def user_cache() -> Path:
    """The folder that is the user's by the XDG Base Directory Specification, which ignores relative paths."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "castalia" / "rows"
