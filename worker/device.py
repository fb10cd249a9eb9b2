"""What a trainer of this worker computes with: asked once, in a process that may import torch."""

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

ASK = (sys.executable, "-P", "-m", "core.train.device")
ASKING_LIMIT_S = 120
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Device:
    """A device's name, and the bytes of memory that a trainer can have on it; None: not known."""

    name: str
    bytes: int | None


def find_device(ask: Sequence[str] = ASK) -> Device:
    """What the command ``ask`` finds. A host that cannot tell has an unknown device, and takes any job."""
    try:
        asked = subprocess.run(  # noqa: S603 - our own command
            ask, check=True, capture_output=True, timeout=ASKING_LIMIT_S
        )
        found = json.loads(asked.stdout)
        return Device(str(found["device"]), int(found["device_bytes"]))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        log.warning("the device is not known: %s", said[-1] if said else error)
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        log.warning("the device is not known: %s", error)
    return Device(UNKNOWN, None)
