"""The canary: one step on the longest rows before the first, so that what does not fit is known in a minute.

It is a run of its own in a folder of its own: the rows of a step's longest passes, the longest held-out row,
one step, one evaluation, one checkpoint. Model and optimizer are dropped afterwards and built anew, so the
run's weights are those of one without a canary, bit for bit. On a GPU the allocator's peak is measured,
elsewhere the bytes of live tensors.
"""

import gc
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any

import torch

from core.optim import exact_state
from core.spec.errors import ExitCode, RunFailure
from core.spec.events import CANARY_CODE
from core.spec.job import JobSpec
from core.spec.run import CANARY_FOLDER
from core.streambp.peak import LiveBytes
from core.streambp.plan import GIB
from core.train.course import Course, device
from core.train.journal import Journal
from core.train.memory import Planned, is_out_of_memory, out_of_memory
from core.train.stop import StopRequest

PASSES = 2
"""As many as show the peak: in the second one every gradient is there beside a pass's own memory."""


@dataclass(slots=True)
class Peak:
    """Most bytes at once; 0 until it is known."""

    bytes: int = 0


def fly_canary(course: Course, plan: Planned | None, stop: StopRequest) -> None:
    """Make the step and tell what it took. Raises RunFailure where memory or disk do not suffice."""
    rows = longest_rows(course.rows, course.spec)
    tokens = len(rows[0])
    peak = Peak()
    try:
        _fly(course, rows, peak, stop)
    except Exception as error:
        if is_out_of_memory(error):
            raise _too_long(error, tokens, plan) from error
        if not _is_of_the_rows(error):
            raise
        course.journal.note(
            "canary.unfinished", f"the step on the longest rows was not made: {error}"
        )
    else:
        if not stop.asked:
            _tell_passed(course.journal, peak.bytes, tokens, len(rows), plan)
    finally:
        _let_go()


def longest_rows(rows: Sequence[Any], spec: JobSpec) -> list[Any]:
    """The longest first: as many as two full passes take, or a step has."""
    longest = max(map(len, rows))
    assert spec.trainer.tokens_per_pass is not None, "a resolved spec has one"
    at_once = max(1, spec.trainer.tokens_per_pass // longest)
    return nlargest(min(spec.hyperparameters.batch_size, PASSES * at_once), rows, key=len)


def _fly(course: Course, rows: list[Any], peak: Peak, stop: StopRequest) -> None:
    folder = course.directory / CANARY_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    trainer = course.spec.trainer.model_copy(update={"max_steps": 1})
    journal = Journal(folder)
    canary = replace(
        course,
        spec=course.spec.model_copy(update={"trainer": trainer}),
        rows=rows,
        held_out=nlargest(1, course.held_out, key=len),
        directory=folder,
        journal=journal,
    )
    try:
        with canary.built(None) as built, _measured(built.loop.lesson.model, peak):
            canary.walk(built, None, stop)
    finally:
        journal.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _measured(model: torch.nn.Module, peak: Peak) -> Iterator[None]:
    if device().type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        yield
        peak.bytes = torch.cuda.max_memory_allocated()
        return
    with LiveBytes() as live:
        yield
    peak.bytes = live.peak + sum(tensor.nbytes for tensor in exact_state(model).values())


def _let_go() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _is_of_the_rows(error: Exception) -> bool:
    """Whether it tells of these rows, which the run itself may bear or refuse in its own words."""
    return isinstance(error, RunFailure) and error.exit_code in (ExitCode.data, ExitCode.diverged)


def _too_long(error: Exception, tokens: int, plan: Planned | None) -> RunFailure:
    longest = tokens - 1
    if plan is not None:
        longest = min(longest, plan.longest_context())
    where = f" in the canary, on rows of {tokens:,} tokens"
    if plan is not None:
        where += f" for which the plan foresaw {plan.bytes / GIB:.2f} GiB"
    return out_of_memory(error, where, longest)


def _tell_passed(
    journal: Journal, measured: int, tokens: int, rows: int, plan: Planned | None
) -> None:
    foreseen = {} if plan is None else {"predicted_bytes": plan.bytes}
    planned = f", {plan.bytes / GIB:.2f} GiB planned" if plan else ""
    journal.note(
        CANARY_CODE,
        f"a step on {rows} rows of up to {tokens:,} tokens took {measured / GIB:.2f} GiB{planned}",
        level="info",
        measured_bytes=measured,
        tokens=tokens,
        rows=rows,
        **foreseen,
    )
