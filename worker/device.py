"""What trainers of this worker compute with: asked once, in a process that may import torch.

A worker runs as many trainers as it has slots, and each slot has a device: its own while there are enough of
them, else a share of one.
"""

import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

ASK = (sys.executable, "-P", "-m", "core.train.device")
ASKING_LIMIT_S = 120
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Device:
    """A device's name, and the bytes of memory that a trainer can have on it; None: not known.

    ``gpu``: what CUDA_VISIBLE_DEVICES is for a trainer on it; None: as it is for this worker.
    """

    name: str
    bytes: int | None
    gpu: str | None = None


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
    devices: Sequence[Device], slots: int, bytes_each: int | None = None
) -> list[Device]:
    """A device for each slot, in turn; those that share one have a part of its memory each.

    ``bytes_each``: what a trainer can have, whatever was found.
    """
    sharers = Counter(slot % len(devices) for slot in range(slots))
    given = []
    for slot in range(slots):
        device = devices[slot % len(devices)]
        part = None if device.bytes is None else device.bytes // sharers[slot % len(devices)]
        given.append(Device(device.name, part if bytes_each is None else bytes_each, device.gpu))
    return given
