"""What a job will need, from its memory plan: for somebody who asks before it runs.

A job that does not fit is told the first change by which it would: shorter chunks and fewer rows at once
come first, then where layers keep their states, and the context, which changes what is learnt, last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from core.data.order import total_steps
from core.spec.job import JobSpec
from core.spec.objective import DpoSpec, updates_per_batch
from core.spec.plan import Advice, DataFacts, DiskPlan, JobPlan, PhaseMemory
from core.streambp.plan import BudgetError, Footprint, MemoryPlan, stored_bytes
from core.train.inputs import locate, read_rows_of
from core.train.planning import Planning, with_context
from core.train.shapes import Length, longest_length

_PAIR_BYTES = 2 * 8  # of a reference's log-probabilities


def job_plan(
    planning: Planning,
    *,
    budget_bytes: int | None = None,
    data: DataFacts | None = None,
    lengths: Sequence[Length] | None = None,
    input_bytes: int = 0,
) -> JobPlan:
    """Tell what the job of ``planning`` will need.

    ``budget_bytes``: memory of the device to fit into; ``lengths``: of the rows, as `length_of` tells; None:
    rows as long as ``data`` or the spec allows; ``input_bytes``: of its files.
    """
    spec = planning.spec
    rows = lengths or [_longest(spec, data)]
    try:
        model = planning.best(rows, 2**62 if budget_bytes is None else budget_bytes)
    except BudgetError:
        model = planning.ladder[-1]
    memory = planning.plan(model, rows)
    steps = None if data is None else _steps(spec, data)
    return JobPlan(
        model_type=model.model_type,
        context_length=_known(spec.trainer.context_length),
        rows_at_once=memory.rows,
        tokens_a_row=memory.tokens,
        chunk_tokens=model.chunk_tokens,
        step="fused" if spec.trainer.step == "fused" else "two_phase",
        checkpointed_layers=memory.checkpointed_layers,
        phases=tuple(
            PhaseMemory(**asdict(x), margin=x.margin, total=x.total) for x in memory.phases
        ),
        peak=memory.peak.name,
        memory_bytes=memory.total,
        **_verdict(planning, rows, memory.total, budget_bytes),
        disk=_disk(planning, model, memory, data, input_bytes),
        steps=steps,
        tokens=None if data is None or steps is None else _tokens(spec, data, steps),
    )


def _verdict(
    planning: Planning, rows: Sequence[Length], need: int, budget_bytes: int | None
) -> dict[str, Any]:
    if budget_bytes is None:
        return {"budget_bytes": None, "fits": None, "longest_context": None, "advice": None}
    longest, fits = _longest_context(planning, budget_bytes), need <= budget_bytes
    return {
        "budget_bytes": budget_bytes,
        "fits": fits,
        "longest_context": longest,
        "advice": None if fits else _advice(planning, rows, budget_bytes, longest),
    }


def _longest(spec: JobSpec, data: DataFacts | None) -> Length:
    context = _known(spec.trainer.context_length)
    if data is None or data.longest >= context:
        return longest_length(spec)
    return longest_length(with_context(spec, data.longest))


def _longest_context(planning: Planning, budget_bytes: int) -> int:
    try:
        return planning.longest(budget_bytes)
    except BudgetError:
        return 0


def _advice(
    planning: Planning, rows: Sequence[Length], budget_bytes: int, longest: int
) -> Advice | None:
    """The first change that makes it fit; what changes what is learnt comes last."""
    for field, value, changed in _changes(planning.spec, planning.device_type):
        other = Planning.of(changed, planning.config, planning.device_type)
        try:
            other.best(rows, budget_bytes)
        except BudgetError:
            continue
        return Advice(field=field, value=value)
    return Advice(field="trainer.context_length", value=longest) if longest else None


def _changes(spec: JobSpec, device_type: str) -> Iterator[tuple[str, int | str, JobSpec]]:
    trainer, stream = spec.trainer, spec.trainer.stream
    if stream.chunk_tokens != "auto":
        yield "trainer.stream.chunk_tokens", "auto", _with_stream(spec, chunk_tokens="auto")
    context, tokens = _known(trainer.context_length), _known(trainer.tokens_per_pass)
    if tokens > context and trainer.step != "fused":
        small = trainer.model_copy(update={"tokens_per_pass": context})
        yield "trainer.tokens_per_pass", context, spec.model_copy(update={"trainer": small})
    if stream.keep != "hidden":
        yield "trainer.stream.keep", "hidden", _with_stream(spec, keep="hidden")
    elsewhere = "disk" if device_type == "cpu" else "cpu"
    if stream.store == "device":
        yield "trainer.stream.store", elsewhere, _with_stream(spec, store=elsewhere)


def _with_stream(spec: JobSpec, **changed: Any) -> JobSpec:
    stream = spec.trainer.stream.model_copy(update=changed)
    return spec.model_copy(update={"trainer": spec.trainer.model_copy(update={"stream": stream})})


def _disk(
    planning: Planning, model: Footprint, memory: MemoryPlan, data: DataFacts | None, inputs: int
) -> DiskPlan:
    spec, wish = planning.spec, planning.wish
    adapter, checkpoint = spec.trainer.adapter, spec.trainer.checkpoint
    held = model.weights
    if adapter.kind == "lora":
        held = model.gradients + (model.weights if adapter.merge else 0)
    elif wish.held_weights is not None:
        held += wish.held_weights  # exactly, beside what transformers loads
    pairs = data.rows if data is not None and isinstance(spec.trainer.objective, DpoSpec) else 0
    one = held + wish.step.state + _PAIR_BYTES * pairs
    kept = checkpoint.keep_last + (checkpoint.keep_best is not None) + 1
    stored = 0
    if wish.store == "disk":
        stored = memory.rows * stored_bytes(model, memory.tokens, wish)
    return DiskPlan(
        inputs=inputs,
        checkpoint=one,
        checkpoints=kept * one,
        kept_states=stored,
        total=inputs + kept * one + stored,
    )


def _steps(spec: JobSpec, data: DataFacts) -> int:
    numbers, trainer = spec.hyperparameters, spec.trainer
    return total_steps(
        data.rows,
        numbers.batch_size,
        numbers.n_epochs,
        trainer.max_steps,
        updates_per_batch(trainer.objective),
    )


def _tokens(spec: JobSpec, data: DataFacts, steps: int) -> int:
    """Of the rows of all steps, each of its updates counted; of a job that ends early in proportion."""
    numbers = spec.hyperparameters
    steps_an_epoch = total_steps(data.rows, numbers.batch_size, 1)
    return round(data.tokens * steps / steps_an_epoch)


def _known(value: int | None) -> int:
    assert value is not None, "a resolved spec has one"
    return value


def rows_known(
    planning: Planning, beside: Path, tokenizer: PreTrainedTokenizerBase
) -> tuple[DataFacts, list[Length]]:
    """What the training file holds, encoded as the job will encode it. Raises RunFailure."""
    found = read_rows_of(planning.spec, "training_file", beside, tokenizer)
    lengths = planning.lengths(found.read.rows)
    data = DataFacts(
        rows=len(lengths),
        tokens=sum(length.shared for length in lengths),
        longest=max(length.branch for length in lengths),
    )
    return data, lengths


def bytes_of_inputs(spec: JobSpec, beside: Path) -> int:
    """Bytes of the job's files, of those that are there."""
    names = [name for name in (spec.training_file, spec.validation_file) if name is not None]
    paths = [locate(name, beside) for name in names]
    return sum(path.stat().st_size for path in paths if path.is_file())
