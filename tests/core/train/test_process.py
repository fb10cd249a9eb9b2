"""The trainer as a process of its own: killed, orphaned, or on a disk that is full."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.spec.errors import ExitCode
from core.spec.events import run_event

ROOT = Path(__file__).parents[3]
MODULE = (sys.executable, "-P", "-m", "core.train")
LIMIT_S = 120
IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


@pytest.fixture
def spec(make_spec):
    """Eight steps, a checkpoint a step."""
    return make_spec(trainer={"checkpoint": {"every": 1, "keep_last": 20}})


@pytest.fixture
def start(tmp_path, spec):
    """Starts the trainer in the run directory `out`; ends what is left of it."""
    started = []

    def do(*options, before=(), fds=()):
        (tmp_path / "spec.json").write_text(spec.model_dump_json())
        command = [*before, *MODULE, str(tmp_path / "spec.json"), "--out", str(tmp_path / "out")]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with (tmp_path / "log").open("ab") as log:
            started.append(
                subprocess.Popen([*command, *options], env=env, stderr=log, pass_fds=fds)
            )
        return started[-1]

    yield do
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def until_step(tmp_path):
    """Waits until the run has done a step."""
    events = tmp_path / "out" / "events.jsonl"

    def steps():
        lines = events.read_bytes().split(b"\n")[:-1] if events.exists() else []
        return [e.step for e in map(run_event.validate_json, lines) if e.kind == "step"]

    def wait(process, step):
        deadline = time.monotonic() + LIMIT_S
        while step not in steps():
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.002)

    return wait


def test_a_killed_run_that_is_started_again_ends_with_the_same_bits(
    start, until_step, train, spec, bit_equal
):
    whole = train(spec, "whole")
    process = start()
    until_step(process, 3)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    resumed = train(spec, "out")
    assert 2 <= resumed.of("started")[1].step < 8
    assert resumed.steps == whole.steps
    assert bit_equal(resumed.weights, whole.weights)
    assert bit_equal(resumed.state, whole.state)


def test_a_run_ends_when_its_parent_dies(start, until_step):
    reading, writing = os.pipe()
    process = start("--watch-fd", str(reading), fds=(reading,))
    os.close(reading)
    until_step(process, 1)
    os.close(writing)
    assert process.wait(LIMIT_S) == ExitCode.orphaned


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*IN_A_NAMESPACE, "true"], check=False).returncode != 0,
    reason="this system grants no mount namespaces",
)
@pytest.mark.parametrize(
    "room",
    ["size=150k", "size=100m,nr_inodes=8"],
    ids=["too few bytes, which is seen beforehand", "too few files, which is not"],
)
def test_a_full_disk_is_told_and_leaves_no_half_a_checkpoint(start, tmp_path, room):
    out = tmp_path / "out"
    mount = f'mount -t tmpfs -o {room} none "{out}"'
    script = f'{mount} && "$@"; code=$?; cp -r "{out}" "{out}2"; exit $code'
    out.mkdir()
    process = start(before=(*IN_A_NAMESPACE, "sh", "-c", script, "sh"))
    assert process.wait(LIMIT_S) == ExitCode.disk, (tmp_path / "log").read_text()
    lines = (tmp_path / "out2" / "events.jsonl").read_bytes().splitlines()
    error = run_event.validate_json(lines[-1]).error
    assert (error.code, error.fault, error.retryable) == ("insufficient_disk", "platform", True)
    assert not list((tmp_path / "out2").glob("checkpoints/*.partial"))
