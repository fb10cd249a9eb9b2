"""Peak memory of a whole training step, per parameter, by optimizer and precision; and a 7B model's plan.

    python -m benchmarks.state [--json] [--hidden 1024] [--layers 24]

Each case runs in a process of its own, on a heap that gives back what is freed.
The sequence is short, so that weights, gradients and state are what is measured. `plan_error` is what
the memory plan foretold over what was measured, less 1. `predicted_7b_gib` is the plan of a Llama of 7
billion parameters at 8,192 tokens: int8 weights that compute in bfloat16, APOLLO-Mini, fused.
"""

import argparse
import json
import sys
from dataclasses import asdict, replace
from typing import Any

from transformers import PreTrainedConfig

from benchmarks.cases import last_object
from benchmarks.optimizer_shapes import config_of
from benchmarks.state_step import MINI, StateCase, StateMeasured
from core.spec.optimizer import AdamWSpec, OptimizerSpec
from core.streambp.plan import GIB, MemoryPlan, Wish, footprint, memory_plan, meta_model
from core.train.cost import weighed
from core.train.weights import computing_dtype

CASES = (
    StateCase("adamw", "float32", "two_phase"),
    StateCase("apollo_mini", "float32", "fused"),
    StateCase("apollo_mini", "bfloat16", "fused"),
    StateCase("apollo_mini", "int8", "fused"),
)
STEADY_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(2**16), "MALLOC_MMAP_MAX_": str(2**20)}
"""Every block of 64 KiB is mapped by itself: small parts of a step would else pin a heap of free ones."""

CONTEXT = 8192
CHUNK_TOKENS, HEAD_CHUNK_TOKENS = 512, 256


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=24)
    options = parser.parse_args()
    cases = [replace(case, hidden=options.hidden, layers=options.layers,
                     intermediate=options.hidden * 11 // 4) for case in CASES]  # fmt: skip
    report = report_of([(case, run(case)) for case in cases])
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<56}{value}")
    return 0


def run(case: StateCase) -> StateMeasured:
    """Measure a case in a process of its own. Raises CaseFailed."""
    command = [sys.executable, "-m", "benchmarks.state_step", json.dumps(asdict(case))]
    found = StateMeasured(**last_object(case.name, command, STEADY_HEAP | {"OMP_NUM_THREADS": "1"}))
    sys.stderr.write(f"{found.name:<32}{found.peak_bytes / found.parameters:8.2f} bytes\n")
    return found


def report_of(found: list[tuple[StateCase, StateMeasured]]) -> dict[str, Any]:
    """Bytes a parameter, how far the plan was off, and the plan of a 7B model."""
    report: dict[str, Any] = {}
    for case, measured in found:
        report[f"bytes_per_parameter_{case.name}"] = round(
            measured.peak_bytes / measured.parameters, 3
        )
    for case, measured in found:
        planned = planned_bytes(case)
        report[f"plan_error_{case.name}"] = round(planned / measured.peak_bytes - 1, 3)
    seven = plan(
        config_of("llama-7b"), "int8", MINI, "cuda", (CONTEXT, CHUNK_TOKENS, HEAD_CHUNK_TOKENS)
    )
    return report | {"predicted_7b_gib": round(seven.total / GIB, 2)}


def planned_bytes(case: StateCase) -> int:
    """What the memory plan foretells for a case."""
    lengths = (case.tokens, case.chunk_tokens, case.head_chunk_tokens)
    chosen = MINI if case.optimizer == "apollo_mini" else AdamWSpec()
    found = plan(case.config(), case.precision, chosen, "cpu", lengths, fused=case.step == "fused")
    return found.total


def plan(
    config: PreTrainedConfig,
    precision: Any,
    chosen: OptimizerSpec,
    device_type: str,
    lengths: tuple[int, int, int],  # of the row, of a chunk, of a head's tile
    *,
    fused: bool = True,
) -> MemoryPlan:
    """Plan one row's step."""
    dtype = computing_dtype(precision, device_type)
    tokens, chunk_tokens, head_chunk_tokens = lengths
    empty = meta_model(config, dtype)
    wish = weighed(Wish(head_chunk_tokens, fused=fused), empty, chosen, precision, device_type)
    return memory_plan(footprint(config, dtype=dtype, chunk_tokens=chunk_tokens), tokens, wish)


if __name__ == "__main__":
    sys.exit(main())
