"""What the service costs a job: the same spec trained through it and by `castalia train`, in turns.

    python -m benchmarks.overhead [--rounds 3] [--steps 60] [--json]

One run, interleaved. `overhead_ratio` is the time from the first step's end to the last's through the service
by that of the command line, saving included, medians of the rounds; `overhead_cpu_ratio` the CPU time of the
whole job, of every process of the service, by that of the command. `queue_to_first_step_s` is what the
service adds before the first step's end is told: its time since the job was asked for, less what the command
needs from its start to there, imports and loading included. Five minutes.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chaos.client import JOBS, Api
from benchmarks.chaos.jobs import write_rows
from benchmarks.chaos.processes import cpu_s_below
from benchmarks.chaos.system import System
from benchmarks.training_run import run_spec
from castalia.toy_model import make_toy_model
from core.spec.events import StepDone

MODEL = "toy"
FILE = "sft.jsonl"
ROWS = 64
LIMIT_S = 1800.0
TURN_S, RARELY_S = 0.2, 1.0


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds until the first step's end, from there to the last's, and of CPU in all."""

    first_step_s: float
    steps_s: float
    cpu_s: float


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="castalia-overhead-") as scratch:
        report = overhead(Path(scratch), options.rounds, options.steps)
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<28}{value}")
    return 0


def overhead(folder: Path, rounds: int, steps: int) -> dict[str, Any]:
    """Train in turns; what all turns came to."""
    for name in ("models", "data"):
        (folder / name).mkdir()
    toy = make_toy_model(folder / "models" / MODEL, hidden=64, layers=4)
    write_rows(folder, ROWS)
    served: list[Took] = []
    alone: list[Took] = []
    with (
        System(folder / "data", folder / "models", {}) as system,
        Api(system.url, system.key) as api,
    ):
        file_id = _uploaded(api, folder / FILE)
        for number in range(rounds):
            alone.append(
                _alone(spec(str(toy), str(folder / FILE), steps), folder / f"run-{number}")
            )
            served.append(_served(api, system, spec(MODEL, file_id, steps)))
            sys.stderr.write(f"alone {alone[-1]}, served {served[-1]}\n")
    return {
        "rounds": rounds,
        "steps": steps,
        "overhead_ratio": round(_median(served, "steps_s") / _median(alone, "steps_s"), 4),
        "overhead_cpu_ratio": round(_median(served, "cpu_s") / _median(alone, "cpu_s"), 4),
        "queue_to_first_step_s": round(
            _median(served, "first_step_s") - _median(alone, "first_step_s"), 2
        ),
        "first_step_alone_s": round(_median(alone, "first_step_s"), 2),
        "steps_alone_s": round(_median(alone, "steps_s"), 2),
    }


def spec(model: str, training_file: str, steps: int) -> dict[str, Any]:
    """The same words for both."""
    return {
        "model": model,
        "training_file": training_file,
        "seed": 7,
        "hyperparameters": {"n_epochs": 50, "batch_size": 8},
        "trainer": {
            "context_length": 128,
            "learning_rate": 1e-3,
            "stream": {"chunk_tokens": 64},
            "checkpoint": {"every": max(steps // 4, 1), "keep_last": 2},
            "max_steps": steps,
        },
    }


def _alone(words: dict[str, Any], out: Path) -> Took:
    began, before = time.time(), _cpu_of_ended_children()
    done = [event for event in run_spec("alone", words, out) if isinstance(event, StepDone)]
    return Took(done[0].at - began, done[-1].at - done[0].at, _cpu_of_ended_children() - before)


def _served(api: Api, system: System, words: dict[str, Any]) -> Took:
    began, before = time.time(), cpu_s_below(os.getpid())
    job_id = api.ask("POST", JOBS, json=words).json()["id"]
    first_seen: float | None = None
    job: dict[str, Any] = {}
    while job.get("status") not in {"succeeded", "failed", "cancelled"}:
        if time.time() - began > LIMIT_S:
            raise TimeoutError(f"{job_id} is still {job.get('status')}")
        system.tend()
        job = api.get(f"{JOBS}/{job_id}")
        if first_seen is None and job["progress"]["step"]:
            first_seen = time.time()
        time.sleep(TURN_S if first_seen is None else RARELY_S)
    if job["status"] != "succeeded" or first_seen is None:
        raise RuntimeError(f"{job_id} is {job['status']}: {job['error']}")
    events = api.get(f"{JOBS}/{job_id}/events", limit=1000)["data"][::-1]
    seconds = [e["data"]["step_seconds"] for e in events if e["data"]["code"] == "step.completed"]
    return Took(first_seen - began, sum(seconds[1:]), cpu_s_below(os.getpid()) - before)


def _uploaded(api: Api, path: Path) -> str:
    files = {"file": (path.name, path.read_bytes())}
    file_id = str(
        api.ask("POST", "/files", data={"purpose": "fine-tune"}, files=files).json()["id"]
    )
    while api.get(f"/files/{file_id}")["status"] == "uploaded":
        time.sleep(TURN_S)
    return file_id


def _cpu_of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(took: list[Took], what: str) -> float:
    return float(statistics.median(getattr(one, what) for one in took))


if __name__ == "__main__":
    sys.exit(main())
