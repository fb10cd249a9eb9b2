"""A whole step's memory plan, and the longest context that fits into a budget."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.streambp.errors import BudgetError, at_least_one
from core.streambp.plan.footprint import Footprint
from core.streambp.plan.forward import sampling_phase, scoring_phase
from core.streambp.plan.phases import head_phase, layers_phase, step_phase
from core.streambp.plan.terms import Phase, Wish
from core.streambp.policy import Keep, StoreName

GIB = 2**30
_LONGEST = 2**32


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of one training step over `rows` rows of `tokens` tokens, and of what is done beside it."""

    model_type: str
    tokens: int
    rows: int
    chunk_tokens: int
    head_chunk_tokens: int
    keep: Keep
    store: StoreName
    phases: tuple[Phase, ...]
    checkpointed_layers: int

    @property
    def peak(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return self.peak.total


def memory_plan(model: Footprint, tokens: int, wish: Wish) -> MemoryPlan:
    """Add up what a step over `tokens` tokens a row needs. Raises ChunkLengthError."""
    at_least_one("tokens", tokens)
    at_least_one("head_chunk_tokens", wish.head_chunk_tokens)
    at_least_one("rows", wish.rows)
    return MemoryPlan(
        model_type=model.model_type,
        tokens=tokens,
        rows=wish.rows,
        chunk_tokens=model.chunk_tokens,
        head_chunk_tokens=wish.head_chunk_tokens,
        keep=wish.keep,
        store=wish.store,
        phases=(
            head_phase(model, tokens, wish),
            layers_phase(model, tokens, wish),
            step_phase(model, wish),
            *_worst(scoring_phase(model, shape, wish) for shape in wish.scored),
            *_worst(sampling_phase(model, drawn, wish) for drawn in wish.drawn),
        ),
        checkpointed_layers=sum(layer.whole for layer in model.layers),
    )


def _worst(phases: Iterable[Phase]) -> list[Phase]:
    """The one that needs most, if there is any."""
    return sorted(phases, key=lambda phase: phase.total)[-1:]


def longest_context(model: Footprint, wish: Wish, budget_bytes: int) -> int:
    """The most tokens a row whose plan fits into the budget, by bisection.

    Raises BudgetError where not even one chunk does.
    """

    def fits(tokens: int) -> bool:
        return memory_plan(model, tokens, wish).total <= budget_bytes

    least = model.chunk_tokens
    if not fits(least):
        need = memory_plan(model, least, wish).total
        raise BudgetError(
            "budget_bytes", budget_bytes, f"one chunk of {least} tokens needs {need / GIB:.2f} GiB"
        )
    return _last(fits, least, _LONGEST)


def _last(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number from `low`, which fits, to `high` that fits."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
