"""What trainers of this worker compute with: asked once, in a process that may import torch.

A worker runs as many trainers as it has slots. A slot of one device has its own while there are enough of
them, else a share of one; a slot of several owns them: no other trainer of this worker uses them.
"""

import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

log = logging.getLogger(__name__)

ASK = (sys.executable, "-P", "-m", "core.train.device")
ASKING_LIMIT_S = 120
UNKNOWN = "unknown"


class TooFewDevices(Exception):
    """The slots of a worker are to own more GPUs than there are."""

    def __init__(self, slots: int, each: int, found: int) -> None:
        self.slots, self.each, self.found = slots, each, found
        super().__init__(
            f"{slots} x {each} devices (concurrency x devices for a job) are more than the {found} GPUs here"
        )


@dataclass(frozen=True, slots=True)
class Device:
    """A device's name, and the bytes of memory that a trainer can have on it; None: not known.

    ``gpu``: what CUDA_VISIBLE_DEVICES is for a trainer on it; None: as it is for this worker.
    ``count``: how many such devices a slot has for one job; ``gpu`` then names them all.
    """

    name: str
    bytes: int | None
    gpu: str | None = None
    count: int = 1

    def gpus(self, devices: int) -> str | None:
        """What CUDA_VISIBLE_DEVICES is for a job that has so many of them."""
        return None if self.gpu is None else ",".join(self.gpu.split(",")[:devices])


def find_devices(ask: Sequence[str] = ASK) -> list[Device]:
    """What the command ``ask`` finds, at least one.

    A host that cannot tell has an unknown device, and takes any job.
    """
    try:
        asked = subprocess.run(  # noqa: S603 - our own command
            ask, check=True, capture_output=True, timeout=ASKING_LIMIT_S
        )
        found = [
            Device(str(one["device"]), int(one["device_bytes"]), one["gpu"])
            for one in json.loads(asked.stdout)
        ]
        if found:
            return found
        log.warning("the device is not known: none was found")
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        log.warning("the device is not known: %s", said[-1] if said else error)
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        log.warning("the device is not known: %s", error)
    return [Device(UNKNOWN, None)]


def devices_of_slots(
    devices: Sequence[Device], slots: int, bytes_each: int | None = None, per_job: int = 1
) -> list[Device]:
    """What each slot has: a device in turn, or ``per_job`` devices of its own.

    Those that share a device have a part of its memory each. ``bytes_each``: what a trainer can have on
    a device, whatever was found. Raises TooFewDevices for GPUs that are not there; where there is none,
    the processes of a job share the host.
    """
    if per_job == 1:
        given = _shared(devices, slots)
    elif devices[0].gpu is None:
        host = _shared(devices, slots * per_job)[0]
        given = [replace(host, count=per_job)] * slots
    elif len(devices) < slots * per_job:
        raise TooFewDevices(slots, per_job, len(devices))
    else:
        given = [_group(devices[slot * per_job :][:per_job]) for slot in range(slots)]
    return given if bytes_each is None else [replace(one, bytes=bytes_each) for one in given]


def _shared(devices: Sequence[Device], slots: int) -> list[Device]:
    sharers = Counter(slot % len(devices) for slot in range(slots))
    given = []
    for slot in range(slots):
        device = devices[slot % len(devices)]
        part = None if device.bytes is None else device.bytes // sharers[slot % len(devices)]
        given.append(replace(device, bytes=part))
    return given


def _group(devices: Sequence[Device]) -> Device:
    """Several for one job: what fits on the smallest fits on all."""
    names = ", ".join(dict.fromkeys(device.name for device in devices))
    sizes = [device.bytes for device in devices if device.bytes is not None]
    gpus = ",".join(device.gpu for device in devices if device.gpu is not None)
    return Device(names, min(sizes, default=None), gpus, len(devices))
