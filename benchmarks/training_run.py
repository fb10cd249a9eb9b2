"""A whole run of the product's own trainer, as a worker would run it, read back from its events."""

import json
import sys
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.cases import output_of
from core.spec.events import Evaluated, RunEvent, StepDone, run_event
from core.spec.run import CHECKPOINTS_FOLDER, EVENTS_FILE

LIMIT_S = 3600.0
Curve = list[tuple[int, float]]


def run_spec(name: str, spec: dict[str, Any], out: Path) -> list[RunEvent]:
    """Run `spec`, JSON of a JobSpec, in the folder `out`; its events. Raises CaseFailed."""
    out.mkdir(parents=True)
    path = out / "job.json"
    path.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "core.train", str(path), "--out", str(out)]
    output_of(name, command, {"OMP_NUM_THREADS": "1"}, LIMIT_S)
    return events_of(out)


def events_of(out: Path) -> list[RunEvent]:
    """What the run in the folder `out` told."""
    lines = (out / EVENTS_FILE).read_text().splitlines()
    return [run_event.validate_json(line) for line in lines]


def last_checkpoint(out: Path) -> Path:
    """The folder of the run's newest checkpoint."""
    return max((out / CHECKPOINTS_FOLDER).iterdir())


def measured(events: list[RunEvent], metric: str) -> Curve:
    """A metric of the validation file by step."""
    found = {e.step: e.metrics[metric] for e in events if isinstance(e, Evaluated)}
    return sorted(found.items())


def stepped(events: list[RunEvent], metric: str) -> Curve:
    """A metric of the steps themselves."""
    return [(e.step, e.metrics[metric]) for e in events if isinstance(e, StepDone)]


def by_epoch(events: list[RunEvent], metric: str) -> Curve:
    """A metric of the steps as its mean over each epoch, at the epoch's last step."""
    epochs: dict[int, Curve] = {}
    for event in events:
        if isinstance(event, StepDone):
            epoch = ceil(round(event.metrics["epoch"], 6))
            epochs.setdefault(epoch, []).append((event.step, event.metrics[metric]))
    return [(points[-1][0], fmean(value for _, value in points)) for points in epochs.values()]
