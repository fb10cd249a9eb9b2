"""Memory and time in bfloat16 on a GPU, prepared to run unchanged in at most eight minutes.

    python -m benchmarks.gpu.memory [--out benchmarks/results/gpu.json] [--limit 440]

Peers beside every policy of ours, then chunk lengths, then contexts that peers cannot reach. Cases
are in order of worth, each in a process of its own; what the time does not allow is listed as left
out, what runs out of memory as failed. Without a GPU it says so and ends with 0.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.cases import (
    CHECKPOINTING,
    CHUNKED_CE,
    OURS,
    OURS_LEAST,
    Case,
    CaseFailed,
    Shape,
    run_case,
)
from benchmarks.record import provenance
from benchmarks.steps import policies

LIMIT_S = 440.0
CASE_S = 90.0
SHAPE = Shape(
    hidden=2048, layers=16, heads=16, key_heads=8, head_width=128, intermediate=6144,
    vocabulary=151_936,
)  # fmt: skip
"""About Qwen3-1.7B, with fewer layers."""


def main() -> int:
    """Measure while time lasts and write what was found; 0 also without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu.json"))
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for everything")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here: nothing was measured")
        return 0
    command = ["python", "-m", "benchmarks.gpu.memory", "--limit", str(options.limit)]
    report = provenance(command) | {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    report |= run_within(list(cases()), options.limit)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report))
    return 0


def cases() -> Iterator[Case]:
    """All cases, those that matter most first."""
    case = Case(OURS_LEAST, 16_384, 2048, 512, device="cuda", dtype="bfloat16", shape=SHAPE)
    for tokens in (16_384, 65_536):
        for mode in (CHECKPOINTING, CHUNKED_CE, *policies("cuda")):
            yield replace(case, mode=mode, tokens=tokens)
    for chunk in (512, 4096, 8192):
        yield replace(case, tokens=65_536, chunk_tokens=chunk)
    for store in ("device", "cpu"):
        yield replace(case, mode=f"{OURS}/hidden/{store}", tokens=262_144, chunk_tokens=4096)


def run_within(wanted: list[Case], limit_s: float) -> dict[str, Any]:
    """Run cases in order until the time is up."""
    end = time.monotonic() + limit_s
    done: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    while wanted and time.monotonic() < end:
        case = wanted.pop(0)
        try:
            measured = run_case(case, limit_s=min(CASE_S, max(end - time.monotonic(), 1.0)))
            done.append({**asdict(measured), "chunk_tokens": case.chunk_tokens})
        except CaseFailed as error:
            failed.append({"case": asdict(case), "why": str(error)})
        sys.stderr.write(f"{case.mode} {case.tokens} {case.chunk_tokens}\n")
    return {"cases": done, "failed": failed, "left_out": [asdict(case) for case in wanted]}


if __name__ == "__main__":
    sys.exit(main())
