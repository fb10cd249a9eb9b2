"""The memory plan of a run: what its longest passes need, whether it fits, what to say if it does not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from transformers import PreTrainedModel

from core.models.adapter import with_adapter
from core.models.load import load_config
from core.spec.adapter import LoraSpec
from core.spec.errors import ExitCode, JobError, RunFailure
from core.spec.job import JobSpec
from core.spec.stepping import LINEAR
from core.streambp.errors import BudgetError
from core.streambp.plan import (
    Footprint,
    Wish,
    best_of,
    busy_tokens,
    chunk_ladder,
    footprint,
    free_bytes,
    longest_context,
    memory_plan,
    meta_model,
)
from core.train.cost import weighed
from core.train.passes import largest_passes
from core.train.weights import computing_dtype

CPU_ALLOCATOR = "DefaultCPUAllocator"
LESS = (
    "lower trainer.context_length or tokens_per_pass, or store what layers keep on the host or on "
    "disk (trainer.stream.store)"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that fits: passes of these ``shapes`` (rows, tokens a row) within the ``free`` bytes."""

    model: Footprint
    shapes: list[tuple[int, int]]
    wish: Wish
    free: int

    @property
    def bytes(self) -> int:
        """At the peak of the pass that needs most."""
        return max(self._need(*shape) for shape in self.shapes)

    def longest_context(self) -> int:
        """The most tokens of a single row that would fit."""
        return longest_context(self.model, replace(self.wish, rows=1), self.free)

    def _need(self, rows: int, tokens: int) -> int:
        return memory_plan(self.model, tokens, replace(self.wish, rows=rows)).total


def plan_run(spec: JobSpec, source: str, lengths: Sequence[int], device: torch.device) -> Planned:
    """The plan of the resolved ``spec`` for rows of ``lengths``, in its chunks or in the best ones.

    Nothing is loaded. Raises RunFailure where nothing fits into what is free on ``device`` now, PlanError
    where no plan can be made.
    """
    trainer, free = spec.trainer, free_bytes(device)
    config, dtype = load_config(source), computing_dtype(trainer.precision, device.type)
    wish = weighed(
        _wish(spec, on_gpu=device.type != "cpu"), meta_model(config, dtype), trainer.optimizer,
        trainer.precision, device.type, trainer.adapter,
    )  # fmt: skip
    assert trainer.tokens_per_pass is not None, "a resolved spec has one"
    shapes = largest_passes(lengths, spec.hyperparameters.batch_size, trainer.tokens_per_pass)
    adapter = trainer.adapter
    change = partial(_adapted, adapter) if isinstance(adapter, LoraSpec) else None
    tokens = trainer.stream.chunk_tokens
    if tokens == "auto":
        ladder = chunk_ladder(config, dtype=dtype, busy=busy_tokens(device.type), change=change)
    else:
        ladder = [footprint(config, dtype=dtype, chunk_tokens=tokens, change=change)]
    try:
        return Planned(best_of(ladder, shapes, wish, free), shapes, wish, free)
    except BudgetError as error:
        raise _too_much(error, device) from error


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


def _wish(spec: JobSpec, *, on_gpu: bool) -> Wish:
    trainer = spec.trainer
    store = trainer.stream.store
    return Wish(
        head_chunk_tokens=trainer.stream.head_chunk_tokens,
        keep=trainer.stream.keep,
        store=store if on_gpu or store == "disk" else "device",
        fused=trainer.step == "fused",
        linear=trainer.objective.kind in LINEAR,
    )


def _adapted(adapter: LoraSpec, model: PreTrainedModel) -> None:
    with_adapter(model, adapter, seed=0, base="")


def _too_much(error: BudgetError, device: torch.device) -> RunFailure:
    return RunFailure(
        JobError(
            code="insufficient_memory" if device.type == "cpu" else "insufficient_gpu_memory",
            message=f"the memory that is free does not suffice: {error.remedy}",
            param="trainer.context_length",
            fault="capacity",
            hint=LESS,
        ),
        ExitCode.out_of_memory,
    )
