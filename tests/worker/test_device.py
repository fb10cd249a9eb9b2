"""A worker knows what its trainers can have, without having torch in its own process, and deals it out."""

import json
import sys
from pathlib import Path

import pytest

from core.streambp.plan.budget import host_free_bytes
from core.train.device import choices
from worker.context import WorkerContext
from worker.device import UNKNOWN, Device, devices_of_slots, find_devices
from worker.trainer import Trainer

TWO = [Device("one", 100, "0"), Device("other", 60, "1")]


def test_what_is_free_now_is_found():
    found = find_devices()
    for device in found:
        assert device.name
        assert device.bytes > 0
    if found[0].name == "cpu":
        assert len(found) == 1
        assert found[0].gpu is None
        assert found[0].bytes < 4 * host_free_bytes()


def test_each_device_is_told():
    told = [{"device": d.name, "device_bytes": d.bytes, "gpu": d.gpu} for d in TWO]
    assert find_devices((sys.executable, "-c", f"print({json.dumps(told)!r})")) == TWO


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit('there is no torch')",
        "print('{}')",
        "print('not JSON')",
        "print('[1]')",
        "print('[]')",
    ],
)
def test_a_host_that_cannot_tell_has_an_unknown_device(code, caplog):
    assert find_devices((sys.executable, "-c", code)) == [Device(UNKNOWN, None)]
    assert "the device is not known" in caplog.text


def test_the_last_words_of_the_question_are_logged(caplog):
    find_devices((sys.executable, "-c", "raise SystemExit('there is no torch')"))
    assert "there is no torch" in caplog.text


def test_each_slot_has_a_device_of_its_own_while_there_are_enough():
    assert devices_of_slots(TWO, 2) == TWO
    assert devices_of_slots(TWO, 1) == TWO[:1]


def test_slots_that_share_a_device_share_its_memory():
    shared = devices_of_slots(TWO, 3)
    assert [(device.gpu, device.bytes) for device in shared] == [("0", 50), ("1", 60), ("0", 50)]
    unknown = devices_of_slots([Device(UNKNOWN, None)], 2)
    assert unknown == [Device(UNKNOWN, None)] * 2


def test_what_the_setting_says_is_what_each_trainer_has():
    assert {device.bytes for device in devices_of_slots(TWO, 3, bytes_each=7)} == {7}


@pytest.mark.parametrize(
    ("visible", "found"), [(None, ["0", "1"]), ("3,1,2", ["3", "1"]), (" GPU-a, GPU-b", ["GPU-a", "GPU-b"])]
)  # fmt: skip
def test_a_device_is_chosen_among_those_that_the_worker_may_see(visible, found):
    assert choices(2, visible) == found


@pytest.mark.parametrize("gpu", ["5", None])
def test_a_trainer_sees_the_device_of_its_slot_alone(tmp_path, monkeypatch, gpu):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all of them")
    with Trainer(tmp_path, tmp_path / "cache", 0, gpus=gpu) as trainer:
        pid = trainer._process.pid
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert f"CUDA_VISIBLE_DEVICES={gpu or 'all of them'}".encode() in environment


def test_a_process_takes_jobs_that_fit_its_device(settings):
    context = WorkerContext.open(settings, Device("one", 100, "0"))
    assert (context.room.bytes, context.room.devices, context.gpus(1)) == (100, 1, "0")
