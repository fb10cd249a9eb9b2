"""A slot of several devices owns them; a job sees as many as it asked for."""

import pytest

from worker.context import WorkerContext
from worker.device import Device, TooFewDevices, devices_of_slots

FOUR = [Device("A", 80, "4"), Device("A", 70, "5"), Device("A", 80, "6"), Device("B", 60, "7")]


def test_each_slot_owns_its_devices_and_has_what_the_smallest_holds():
    first, second = devices_of_slots(FOUR, 2, per_job=2)
    assert first == Device("A", 70, "4,5", 2)
    assert second == Device("A, B", 60, "6,7", 2)


def test_gpus_that_are_not_there_are_refused_with_what_there_is():
    with pytest.raises(TooFewDevices, match=r"2 x 3 devices .* the 4 GPUs"):
        devices_of_slots(FOUR, 2, per_job=3)


def test_processes_of_a_host_without_a_gpu_share_its_memory():
    slots = devices_of_slots([Device("cpu", 120)], 2, per_job=3)
    assert slots == [Device("cpu", 20, None, 3)] * 2


@pytest.mark.parametrize(("devices", "seen"), [(1, "4"), (2, "4,5")])
def test_a_job_sees_as_many_devices_of_its_slot_as_it_asked_for(settings, devices, seen):
    (slot,) = devices_of_slots(FOUR, 1, per_job=2)
    context = WorkerContext.open(settings, slot)
    assert context.gpus(devices) == seen
    assert (context.room.devices, context.room.bytes) == (2, 70)


def test_what_the_setting_says_is_what_each_device_of_a_slot_has():
    assert devices_of_slots(FOUR, 1, 7, per_job=2)[0].bytes == 7
