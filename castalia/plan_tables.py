"""A JobPlan, drawn for a terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from core.spec.plan import JobPlan

GIB = 2**30
ROWS = (
    "weights",
    "gradients",
    "optimizer",
    "kept_states",
    "hidden",
    "keys_values",
    "chunk",
    "head",
    "margin",
)


def plan_tables(shown: JobPlan) -> Iterator[RenderableType]:
    """A heading, memory by component and phase, and what follows from it."""
    rows = "" if shown.rows_at_once == 1 else f"{shown.rows_at_once} rows of "
    yield (
        f"{shown.model_type}, {rows}{shown.tokens_a_row:,} tokens in chunks of"
        f" {shown.chunk_tokens:,}, step {shown.step}"
    )
    yield memory_table(shown)
    if shown.checkpointed_layers:
        yield f"{shown.checkpointed_layers} layers are checkpointed whole: no chunks there"
    yield from _verdict(shown)
    disk = shown.disk
    yield (
        f"disk: {disk.total / GIB:.2f} GiB in the run's folder, of which checkpoints"
        f" {disk.checkpoints / GIB:.2f} ({disk.checkpoint / GIB:.2f} each)"
    )
    if shown.steps is not None and shown.tokens is not None:
        yield (
            f"{shown.steps:,} steps over {shown.tokens:,} tokens at most; how long they take is told by a "
            "service that knows earlier runs (POST /v1/trainer/plan)"
        )


def memory_table(shown: JobPlan) -> Table:
    """GiB by component and phase; the peak is the largest total."""
    drawn = Table("GiB on the device", *(phase.name for phase in shown.phases))
    for column in drawn.columns[1:]:
        column.justify = "right"
    for name in ROWS:
        values = [getattr(phase, name) for phase in shown.phases]
        drawn.add_row(name.replace("_", " "), *(f"{value / GIB:.2f}" for value in values))
    drawn.add_section()
    drawn.add_row("total", *(f"{phase.total / GIB:.2f}" for phase in shown.phases))
    return drawn


def _verdict(shown: JobPlan) -> Iterator[str]:
    need = f"{shown.tokens_a_row:,} tokens: peak {shown.memory_bytes / GIB:.2f} GiB in phase '{shown.peak}'"
    if shown.budget_bytes is None:
        yield need
        return
    fits = "fits" if shown.fits else "does not fit"
    yield f"{need}: {fits} into {shown.budget_bytes / GIB:g} GiB"
    longest = f"{shown.longest_context:,} tokens" if shown.longest_context else "none fits"
    yield f"longest context: {longest}"
    if shown.advice is not None:
        yield f"it would fit with {shown.advice.field}: {shown.advice.value}"
