"""What a job comes to when nothing dies: its weights and metrics after every step.

The same spec, trained from the command line, with a checkpoint after every step; when checkpoints are
written changes no weights.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from benchmarks.chaos.jobs import OBJECTIVES, files_of, request
from benchmarks.training_run import run_spec
from core.spec.events import Evaluated, StepDone
from core.spec.run import CHECKPOINTS_FOLDER

MEASURED = frozenset({"step_seconds", "tokens_per_second", "peak_memory_bytes"})
"""Metrics that no two runs share."""
KEEP_ALL = 1000


class Reference(BaseModel):
    """By step: the SHA-256 of the weights, the metrics, and those of the validation file."""

    weights: dict[int, str]
    metrics: dict[int, dict[str, float]]
    evaluated: dict[int, dict[str, float]]


References = dict[str, Reference]
_file: TypeAdapter[References] = TypeAdapter(References)


def references(kept: Path, folder: Path, model: Path) -> References:
    """Of every kind, whose rows lie in `folder`; read from the file `kept` if it is there, else made."""
    if not kept.exists():
        made = {kind: undisturbed(kind, folder, model) for kind in OBJECTIVES}
        kept.write_bytes(_file.dump_json(made))
    return _file.validate_json(kept.read_bytes())


def undisturbed(kind: str, folder: Path, model: Path) -> Reference:
    """Run a kind of job, whose rows lie in `folder`."""
    training, validation = files_of(kind)
    valid = str(folder / validation) if validation else None
    spec = request(kind, str(folder / training), valid, str(model))
    spec["trainer"] |= {"checkpoint": {"every": 1, "keep_last": KEEP_ALL}}
    events = run_spec(kind, spec, folder / f"run-{kind}")
    sys.stderr.write(f"reference of {kind} is there\n")
    return Reference(
        weights={
            int(path.name.removeprefix("step-")): sha256(path / "model.safetensors")
            for path in (folder / f"run-{kind}" / CHECKPOINTS_FOLDER).iterdir()
        },
        metrics={e.step: exact(e.metrics) for e in events if isinstance(e, StepDone)},
        evaluated={e.step: exact(e.metrics) for e in events if isinstance(e, Evaluated)},
    )


def exact(metrics: dict[str, Any]) -> dict[str, float]:
    """Those that two equal runs share."""
    return {name: value for name, value in metrics.items() if name not in MEASURED}


def sha256(path: Path) -> str:
    """Of a file's content, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
