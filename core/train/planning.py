"""A job's memory plan: its model counted on the meta device, its optimizer, its passes.

What `chunk_tokens: auto` is chosen by when a run begins is what is told to somebody who asks beforehand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from transformers import PreTrainedConfig

from core.models.adapter import with_adapter
from core.spec.adapter import AdapterSpec, FullSpec, LoraSpec
from core.spec.job import JobSpec
from core.spec.objective import GrpoSpec
from core.spec.stepping import LINEAR
from core.spec.trainer import LONGEST_CONTEXT
from core.streambp.plan import (
    GIB,
    BudgetError,
    Footprint,
    MemoryPlan,
    Wish,
    best_of,
    busy_tokens,
    chunk_ladder,
    footprints,
    memory_plan,
    meta_model,
)
from core.streambp.plan.footprint import Change
from core.train.cost import weighed
from core.train.lessons import lesson_kind
from core.train.shapes import Length, Work, length_of, longest_length, work_of
from core.train.weights import computing_dtype


@dataclass(frozen=True, slots=True)
class Planning:
    """A resolved spec, its model in every chunk length that may be chosen, longest first, and its wishes."""

    spec: JobSpec
    config: PreTrainedConfig
    device_type: str
    ladder: list[Footprint]
    wish: Wish

    @classmethod
    def of(cls, spec: JobSpec, config: PreTrainedConfig, device_type: str) -> Self:
        """Count; nothing is loaded. Raises StreamError, RunFailure for an adapter that cannot be."""
        trainer, stream = spec.trainer, spec.trainer.stream
        dtype = computing_dtype(trainer.precision, device_type)
        wish = Wish(
            head_chunk_tokens=stream.head_chunk_tokens,
            keep=stream.keep,
            store=stream.store if device_type != "cpu" or stream.store == "disk" else "device",
            fused=trainer.step == "fused",
            linear=trainer.objective.kind in LINEAR,
        )
        empty = meta_model(config, dtype)
        wish = weighed(
            wish, empty, trainer.optimizer, trainer.precision, device_type, trainer.adapter
        )
        change = _change(trainer.adapter)
        if stream.chunk_tokens == "auto":
            ladder = chunk_ladder(config, dtype=dtype, busy=busy_tokens(device_type), change=change)
        else:
            lengths = [stream.chunk_tokens]
            ladder = footprints(config, dtype=dtype, chunk_lengths=lengths, change=change)
        if _has_second_model(spec):
            held = ladder[0].weights if wish.held_weights is None else wish.held_weights
            wish = replace(wish, second_weights=held)
        return cls(spec, config, device_type, ladder, wish)

    def at(self, context: int) -> Self:
        """The same for another context: what is counted of the model does not depend on it."""
        return replace(self, spec=with_context(self.spec, context))

    def lengths(self, rows: Sequence[Any]) -> list[Length]:
        """Of encoded rows as they go through this model, packed ones apart where it mixes documents."""
        if self.ladder[0].mixing:
            rows = lesson_kind(self.spec).apart(list(rows))
        return [length_of(row, self.spec) for row in rows]

    def best(self, lengths: Sequence[Length], budget_bytes: int) -> Footprint:
        """The model in the chunks that suit rows of these lengths. Raises BudgetError."""
        work = self._work(lengths)
        return best_of(self.ladder, work.learnt, self._beside(work), budget_bytes)

    def plan(self, model: Footprint, lengths: Sequence[Length]) -> MemoryPlan:
        """Plan the neediest step over rows of these lengths with ``model`` of the ladder."""
        work = self._work(lengths)
        wish = self._beside(work)
        plans = [
            memory_plan(model, tokens, replace(wish, rows=rows)) for rows, tokens in work.learnt
        ]
        return max(plans, key=lambda plan: plan.total)

    def longest(self, budget_bytes: int) -> int:
        """The largest ``context_length`` whose longest rows fit. Raises BudgetError where none does."""
        objective = self.spec.trainer.objective
        least = 1 + (objective.max_completion_tokens if isinstance(objective, GrpoSpec) else 0)
        found = _last(lambda context: self._need(context) <= budget_bytes, least, LONGEST_CONTEXT)
        if found is None:
            chunk = max(self.ladder[-1].chunk_tokens, least)
            need = f"one chunk of {chunk} tokens needs {self._need(chunk) / GIB:.2f} GiB"
            raise BudgetError("budget_bytes", budget_bytes, need)
        return found

    def _need(self, context: int) -> int:
        there = self.at(context)
        return there.plan(self.ladder[-1], [longest_length(there.spec)]).total

    def _work(self, lengths: Sequence[Length]) -> Work:
        return work_of(self.spec, lengths, mixing=self.ladder[0].mixing)

    def _beside(self, work: Work) -> Wish:
        return replace(self.wish, scored=tuple(work.scored), drawn=tuple(work.drawn))


def with_context(spec: JobSpec, context: int) -> JobSpec:
    """The resolved ``spec`` with another context, and passes that follow it where they did before."""
    trainer = spec.trainer
    follows = trainer.tokens_per_pass == trainer.context_length
    changed = {"context_length": context} | ({"tokens_per_pass": context} if follows else {})
    return spec.model_copy(update={"trainer": trainer.model_copy(update=changed)})


def _has_second_model(spec: JobSpec) -> bool:
    """Say whether the base is held beside the policy; an adapter's base is in it already."""
    objective = spec.trainer.objective
    diverging = isinstance(objective, GrpoSpec) and bool(objective.kl_weight)
    return diverging and isinstance(spec.trainer.adapter, FullSpec)


def _change(adapter: AdapterSpec) -> Change | None:
    if not isinstance(adapter, LoraSpec):
        return None
    return partial(with_adapter, spec=adapter, seed=0, base="")


def _last(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number from ``low`` to ``high`` that fits, if any does."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
