"""Runs on several devices, as the command line starts them: the result of one device, whatever dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from core.spec.errors import ExitCode
from core.spec.events import run_event
from core.spec.job import JobSpec

ROOT = Path(__file__).parents[3]
LIMIT_S = 300
CLOSE = {"rtol": 0.0, "atol": 1e-5}

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path):
    """Starts a spec on so many devices in a run directory; ends what is left of it."""
    started = []

    def do(spec: JobSpec, name: str, devices: int, strategy: str = "fsdp"):
        parallel = {"devices": devices, "strategy": strategy}
        words = spec.model_dump(mode="json")
        words["trainer"]["parallel"] = parallel
        path = tmp_path / f"{name}.json"
        path.write_text(JobSpec.parse(words).model_dump_json())
        out = str(tmp_path / name)
        command = [sys.executable, "-P", "-m", "core.train", str(path), "--out", out]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with (tmp_path / f"{name}.log").open("ab") as log:
            started.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
        return started[-1]

    yield do
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def spec_of(make_spec, objective_of, row_of, tmp_path):
    """Two steps of four rows, of which the last has two; longer rows need a pass of their own."""

    def make(kind: str, epochs: int = 1, **trainer) -> JobSpec:
        path = tmp_path / f"{kind}.jsonl"
        rows = [row_of(kind, number, number) for number in range(6)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = {
            "objective": objective_of(kind),
            "checkpoint": {"every": 1, "keep_last": 9},
            **trainer,
        }
        numbers = {"n_epochs": epochs, "batch_size": 4}
        files = {"training_file": str(path)} | (
            {} if kind == "grpo" else {"validation_file": str(path)}
        )
        return make_spec(hyperparameters=numbers, trainer=words, **files)

    return make


@pytest.mark.parametrize(
    ("kind", "strategy", "devices", "optimizer"),
    [
        ("sft", "fsdp", 2, "apollo"),
        ("sft", "ddp", 4, "apollo_mini"),
        ("pretrain", "fsdp", 4, "adamw"),
        ("dpo", "fsdp", 2, "apollo_mini"),
        ("grpo", "fsdp", 2, "apollo_mini"),
        ("grpo", "ddp", 2, "scale"),
    ],
)
def test_losses_and_weights_are_those_of_one_device(
    start, spec_of, train, tmp_path, kind, strategy, devices, optimizer
):
    spec = spec_of(kind, optimizer={"kind": optimizer})
    alone = train(spec, "alone")
    process = start(spec, "spread", devices, strategy)
    assert process.wait(LIMIT_S) == 0, (tmp_path / "spread.log").read_text()
    together = type(alone)(tmp_path / "spread")
    assert together.steps.keys() == alone.steps.keys()
    for step, metrics in alone.steps.items():
        assert together.steps[step] == pytest.approx(metrics, rel=1e-4, abs=1e-5)
    for name, weight in alone.weights.items():
        torch.testing.assert_close(together.weights[name], weight, **CLOSE)


def test_a_killed_rank_ends_the_run_and_it_goes_on_with_fewer(start, spec_of, train, tmp_path):
    spec = spec_of("sft", optimizer={"kind": "apollo"})
    alone = train(spec, "alone")
    process = start(spec, "spread", 3)
    first_of_ranks(process, tmp_path / "spread", "checkpoint")
    os.kill(ranks_of(process)[-1], signal.SIGKILL)
    assert process.wait(LIMIT_S) == -signal.SIGKILL
    assert start(spec, "spread", 2).wait(LIMIT_S) == 0, (tmp_path / "spread.log").read_text()
    for name, weight in alone.weights.items():
        torch.testing.assert_close(type(alone)(tmp_path / "spread").weights[name], weight, **CLOSE)


def test_a_wish_to_stop_stops_all_after_one_step_with_a_checkpoint(start, spec_of, tmp_path):
    spec = spec_of("sft", epochs=10)
    process = start(spec, "spread", 2)
    first_of_ranks(process, tmp_path / "spread", "started")
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == ExitCode.interrupted
    stopped = events_of(tmp_path / "spread")[-1]
    assert stopped.kind == "stopped"
    assert stopped.step < 20
    assert start(spec, "spread", 1).wait(LIMIT_S) == 0
    assert events_of(tmp_path / "spread")[-1].kind == "finished"


def test_ranks_end_with_their_launcher(start, spec_of, tmp_path):
    process = start(spec_of("sft"), "spread", 2)
    first_of_ranks(process, tmp_path / "spread", "started")
    ranks = ranks_of(process)
    process.kill()
    deadline = time.monotonic() + LIMIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_ends_a_rank_is_told_once_with_its_code(start, spec_of, tmp_path):
    spec = spec_of("sft", context_length=8)
    assert start(spec, "spread", 2).wait(LIMIT_S) == ExitCode.data
    failed = [event for event in events_of(tmp_path / "spread") if event.kind == "failed"]
    assert [event.error.code for event in failed] == ["example_too_long"]


def ranks_of(process) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children]


def events_of(directory: Path):
    path = directory / "events.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [run_event.validate_json(line) for line in lines]


def first_of_ranks(process, directory: Path, kind: str) -> None:
    """Wait until the leader has told an event of this kind."""
    kind = "saved" if kind == "checkpoint" else kind
    ranks, deadline = directory, time.monotonic() + LIMIT_S
    while kind not in {event.kind for event in events_of(ranks)}:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
