"""`python -m core.train.device`: what memory trainers that are started here can have, as one JSON line.

Asked in a process of its own, because whoever asks must not import torch. ``gpu`` is what
CUDA_VISIBLE_DEVICES has to be for a trainer that is to take this device; null: there is no GPU to choose.
"""

import json
import os
import sys
from typing import Any

import torch

from core.streambp.plan.budget import free_bytes

CHOICE = "CUDA_VISIBLE_DEVICES"


def describe() -> list[dict[str, Any]]:
    """The devices of this host, and the bytes that are free on each now."""
    if not torch.cuda.is_available():
        return [{"device": "cpu", "device_bytes": free_bytes(torch.device("cpu")), "gpu": None}]
    count = torch.cuda.device_count()
    return [
        {
            "device": torch.cuda.get_device_name(number),
            "device_bytes": free_bytes(torch.device("cuda", number)),
            "gpu": gpu,
        }
        for number, gpu in enumerate(choices(count, os.environ.get(CHOICE)))
    ]


def choices(count: int, visible: str | None) -> list[str]:
    """The choice of each alone of ``count`` devices, where the choice so far is of these ``visible`` ones."""
    if visible is None:
        return [str(number) for number in range(count)]
    return [name.strip() for name in visible.split(",")][:count]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()) + "\n")
