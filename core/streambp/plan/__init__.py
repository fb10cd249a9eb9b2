"""The memory plan: bytes by component, and the longest context that fits, from a configuration.

footprint.py   what one chunk of each layer costs, counted on a model without bytes
attention.py   the attention that is counted there
terms.py       how the model shall be trained, and a phase of a step
phases.py      the formulas of a step
forward.py     those of rows that are only scored, and of answers that are sampled
memory.py      a whole step's plan, and the longest context that fits a budget
auto.py        the chunk length that suits a context and a budget
budget.py      how much memory is free
"""

from core.streambp.errors import BudgetError, PlanError
from core.streambp.plan.auto import best_chunk, best_of, busy_tokens, chunk_ladder
from core.streambp.plan.budget import free_bytes
from core.streambp.plan.footprint import Footprint, LayerCost, footprint, footprints, meta_model
from core.streambp.plan.memory import GIB, MemoryPlan, longest_context, memory_plan
from core.streambp.plan.phases import stored_bytes
from core.streambp.plan.terms import HEAP, MARGIN, Drawn, Phase, Shape, StepCost, Wish

__all__ = [
    "GIB",
    "HEAP",
    "MARGIN",
    "BudgetError",
    "Drawn",
    "Footprint",
    "LayerCost",
    "MemoryPlan",
    "Phase",
    "PlanError",
    "Shape",
    "StepCost",
    "Wish",
    "best_chunk",
    "best_of",
    "busy_tokens",
    "chunk_ladder",
    "footprint",
    "footprints",
    "free_bytes",
    "longest_context",
    "memory_plan",
    "meta_model",
    "stored_bytes",
]
