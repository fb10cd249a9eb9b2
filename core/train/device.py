"""`python -m core.train.device`: what memory a trainer that is started here can have, as one JSON line.

Asked in a process of its own, because whoever asks must not import torch.
"""

import json
import sys

import torch

from core.streambp.plan.budget import free_bytes


def describe() -> dict[str, str | int]:
    """The device that `core.train` takes: its name, and the bytes that are free on it now."""
    if not torch.cuda.is_available():
        return {"device": "cpu", "device_bytes": free_bytes(torch.device("cpu"))}
    device = torch.device("cuda")
    return {"device": torch.cuda.get_device_name(device), "device_bytes": free_bytes(device)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()) + "\n")
