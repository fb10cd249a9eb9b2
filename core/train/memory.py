"""The memory plan of a run: what its longest passes need, whether it fits, what to say if it does not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from core.models.load import load_config
from core.spec.errors import ExitCode, JobError, RunFailure
from core.spec.job import JobSpec
from core.streambp.errors import BudgetError
from core.streambp.plan import Footprint, free_bytes
from core.train.planning import Planning
from core.train.shapes import Length

CPU_ALLOCATOR = "DefaultCPUAllocator"
LESS = (
    "lower trainer.context_length or tokens_per_pass, or store what layers keep on the host or on "
    "disk (trainer.stream.store)"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that fits: rows of these ``lengths`` in the chunks of ``model``, within the ``free`` bytes."""

    planning: Planning
    model: Footprint
    lengths: Sequence[Length]
    free: int

    @property
    def bytes(self) -> int:
        """At the peak of the step that needs most."""
        return self.planning.plan(self.model, self.lengths).total

    def longest_context(self) -> int:
        """The largest context of which the longest rows would fit."""
        return self.planning.longest(self.free)


def plan_run(spec: JobSpec, source: str, rows: Sequence[Any], device: torch.device) -> Planned:
    """The plan of the resolved ``spec`` for encoded ``rows``, in its chunks or in the best ones.

    Nothing is loaded. Raises RunFailure where nothing fits into what is free on ``device`` now, StreamError
    where no plan can be made.
    """
    free = free_bytes(device)
    planning = Planning.of(spec, load_config(source), device.type)
    lengths = planning.lengths(rows)
    try:
        return Planned(planning, planning.best(lengths, free), lengths, free)
    except BudgetError as error:
        least = planning.plan(planning.ladder[-1], lengths).total
        raise _too_much(error, device, least) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator, of a device or of the host, had no more to give."""
    is_one = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return is_one or CPU_ALLOCATOR in str(error)


def out_of_memory(error: BaseException, where: str = "", longest: int | None = None) -> RunFailure:
    """The failure that it is; ``longest``: a context that would fit."""
    said = str(error).splitlines()[0] if str(error) else "host"
    shorter = "" if longest is None else f"set trainer.context_length to at most {longest}; or "
    return RunFailure(
        JobError(
            code="out_of_memory",
            message=f"out of memory{where}: {said}",
            param="trainer.context_length",
            fault="capacity",
            hint=f"{shorter}{LESS}, or lower trainer.stream.chunk_tokens",
        ),
        ExitCode.out_of_memory,
    )


def _too_much(error: BudgetError, device: torch.device, least: int) -> RunFailure:
    return RunFailure(
        JobError(
            code="insufficient_memory" if device.type == "cpu" else "insufficient_gpu_memory",
            message=f"the memory that is free does not suffice: {error.remedy}",
            param="trainer.context_length",
            fault="capacity",
            hint=LESS,
            needed_bytes=least,
        ),
        ExitCode.out_of_memory,
    )
