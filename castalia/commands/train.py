"""`castalia train SPEC --out DIR`: the same as `python -m core.train`, without any service."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from castalia.errors import CastaliaError


class TorchMissingError(CastaliaError):
    """This host has the service but not the trainer."""


def train(
    spec: Annotated[Path, typer.Argument(help="A JobSpec as JSON.")],
    out: Annotated[Path, typer.Option(help="The run directory; a run in it goes on.")],
) -> None:
    """Train on this machine; runs until done, or until Ctrl-C, which saves a checkpoint."""
    if find_spec("torch") is None:
        raise TorchMissingError("torch is not installed here", "pip install 'castalia[train]'")
    command = [sys.executable, "-P", "-m", "core.train", str(spec), "--out", str(out)]
    os.execv(sys.executable, command)  # noqa: S606 - the same process goes on as the trainer
