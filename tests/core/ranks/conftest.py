"""Functions that run on several gloo ranks, each a process of its own."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import multiprocessing

from core.ranks import Crew

LIMIT_S = 300


@pytest.fixture
def on_ranks(tmp_path) -> Callable[..., list[Any]]:
    """Runs ``function(crew, *arguments)`` on so many ranks; what each gave, in their order."""

    def run(ranks: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        store = tmp_path / "store"
        context = multiprocessing.spawn(
            _rank, (ranks, str(store), str(tmp_path), function, arguments), ranks, join=False
        )
        deadline = time.monotonic() + LIMIT_S
        while not context.join(1):  # raises what a rank has raised
            assert time.monotonic() < deadline, "a rank does not end"
        store.unlink(missing_ok=True)
        return [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(ranks)]

    return run


def _rank(
    rank: int, ranks: int, store: str, folder: str, function: Callable[..., Any], given: tuple[Any]
) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks
    )
    torch.save(function(Crew(rank, ranks), *given), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()
