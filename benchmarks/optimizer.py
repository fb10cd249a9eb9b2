"""State and step time of APOLLO, APOLLO-Mini and SCALE beside AdamW's, on the layers of real models.

    python -m benchmarks.optimizer [--json] [--models MODEL ...] [--memory-gib 6] [--rounds 5]

AdamW is torch's, with foreach=True. State is counted for the whole model, embeddings and head updated
as matrices are (`embeddings="apollo"`), from shapes alone, and the count is held against the state that
there really is on the decoder layers that were stepped: as many as the memory allows. Time is CPU
time of one step over these layers in float32, the least of all rounds; in each round all optimizers step
the same weights in turn, in one process. `projection` is the bare product of each gradient with a
projection that is there already. The ratios at the top are those of the last model.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.optimizer_shapes import (
    GIB,
    MODELS,
    Shapes,
    config_of,
    counted_bytes,
    held_bytes,
    shapes_of,
)
from core.optim import APOLLO, APOLLO_MINI, Apollo, Scale, parameter_groups, scale_groups
from core.optim.projection import MATRIX_AXES

LEARNING_RATE = 1e-6  # so that weights stay what they are, however many steps are timed
PROJECTION = "projection"
RATIOS = {
    "state_ratio_mini_vs_adamw": ("state_bytes", "mini", "adamw"),
    "state_ratio_apollo_vs_adamw": ("state_bytes", "apollo", "adamw"),
    "state_ratio_scale_vs_adamw": ("state_bytes", "scale", "adamw"),
    "step_time_ratio_mini_vs_adamw": ("step_s", "mini", "adamw"),
    "step_time_ratio_apollo_vs_adamw": ("step_s", "apollo", "adamw"),
    "step_time_ratio_scale_vs_adamw": ("step_s", "scale", "adamw"),
    "step_time_ratio_apollo_vs_projection": ("step_s", "apollo", PROJECTION),
    "step_time_ratio_rademacher_vs_projection": ("step_s", "rademacher", PROJECTION),
}


class StateDiffers(RuntimeError):
    """An optimizer that does not hold what was counted for it."""


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(options.threads)
    memory = int(options.memory_gib * GIB)
    found = {name: measured(name, options.rank, memory, options.rounds) for name in options.models}
    report = {
        **found[options.models[-1]]["ratios"],
        "rank": options.rank,
        "threads": options.threads,
        "models": found,
    }
    if options.json:
        print(json.dumps(report))
    else:
        show(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--memory-gib", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rank", type=int, default=APOLLO["rank"])
    return parser.parse_args()


def measured(name: str, rank: int, memory_bytes: int, rounds: int) -> dict[str, Any]:
    """Bytes, seconds and ratios of one model. Raises StateDiffers."""
    shapes = shapes_of(config_of(name), memory_bytes)
    stepped = optimizers_of(shapes.layers, rank)
    steps: dict[str, Callable[[], Any]] = {kind: one.step for kind, one in stepped.items()}
    steps[PROJECTION] = bare_projection(shapes.layers, rank)
    seconds = least_seconds(steps, rounds)
    for kind, optimizer in stepped.items():
        check_state(kind, optimizer)
    state = {kind: counted_bytes(one) for kind, one in optimizers_of(shapes.whole, rank).items()}
    return report_of(shapes, state, seconds)


def optimizers_of(module: nn.Module, rank: int) -> dict[str, torch.optim.Optimizer]:
    """One of each over a module's parameters, which may be without bytes."""
    groups = parameter_groups(module, embeddings="apollo")
    apollo = APOLLO | {"rank": rank}
    is_whole = hasattr(module, "get_output_embeddings")
    return {
        "adamw": torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, foreach=True),
        "apollo": Apollo(groups, lr=LEARNING_RATE, **apollo),
        "rademacher": Apollo(groups, lr=LEARNING_RATE, projection="rademacher", **apollo),
        "mini": Apollo(groups, lr=LEARNING_RATE, **APOLLO_MINI),
        "scale": Scale(
            scale_groups(module) if is_whole else module.named_parameters(), lr=LEARNING_RATE
        ),
    }


def bare_projection(module: nn.Module, rank: int) -> Callable[[], None]:
    """The product alone, of every matrix's gradient with a projection drawn before."""
    grads = [p.grad for p in module.parameters() if p.grad is not None and p.ndim == MATRIX_AXES]
    sides = {min(grad.shape) for grad in grads}
    drawn = {side: torch.randn(side, min(rank, side)) for side in sides}

    def project() -> None:
        for grad_MN in grads:
            proj_LR = drawn[min(grad_MN.shape)]
            if grad_MN.shape[0] >= grad_MN.shape[1]:
                grad_MN @ proj_LR
            else:
                proj_LR.mT @ grad_MN

    return project


def least_seconds(steps: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """CPU seconds of each, the least of all rounds; the first round, unmeasured, makes the state.

    Each round begins with another one, so that none has the same neighbour every time.
    """
    least = dict.fromkeys(steps, float("inf"))
    order = list(steps)
    for number in range(rounds + 1):
        for kind in order:
            before = time.process_time()
            steps[kind]()
            if number:
                least[kind] = min(least[kind], time.process_time() - before)
        order.append(order.pop(0))
    return least


def check_state(kind: str, optimizer: torch.optim.Optimizer) -> None:
    """Hold the count against the real state. Raises StateDiffers."""
    counted, held = counted_bytes(optimizer), held_bytes(optimizer)
    if counted != held:
        raise StateDiffers(f"{kind}: counted {counted:,} bytes of state, holds {held:,}")


def report_of(shapes: Shapes, state: dict[str, int], seconds: dict[str, float]) -> dict[str, Any]:
    """What was found of one model."""
    figures: dict[str, dict[str, float]] = {"state_bytes": {**state}, "step_s": seconds}
    ratios = {
        ratio: round(figures[what][ours] / figures[what][theirs], 5)
        for ratio, (what, ours, theirs) in RATIOS.items()
    }
    return {
        "ratios": ratios,
        "parameters": sum(p.numel() for p in shapes.whole.parameters()),
        "layers_stepped": shapes.layer_count,
        "parameters_stepped": sum(p.numel() for p in shapes.layers.parameters()),
        **figures,
    }


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print a table of each model, and its ratios below it."""
    for name, one in found.items():
        table = Table(f"{name}, {one['layers_stepped']} layers", "state, GiB", "step, CPU s")
        for kind, seconds in one["step_s"].items():
            state = one["state_bytes"].get(kind)
            table.add_row(kind, "" if state is None else f"{state / GIB:.3f}", f"{seconds:.3f}")
        Console(width=110).print(table)
        for ratio, value in one["ratios"].items():
            print(f"{ratio:<48}{value:.4f}")


if __name__ == "__main__":
    sys.exit(main())
