"""Answers graded: one, or a batch of them by a few processes that stay for the next batch.

    with Grading(spec, workers=4) as grading:
        grades = grading.grade_many([(Sample("42"), item), …])

A grader never raises about an answer: what goes wrong is a flag of its Grade, with reward 0.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from core.graders.closing import Closing
from core.graders.formula import evaluate
from core.graders.inside.confine import Limits
from core.graders.sample import Sample
from core.graders.scorer import Scorer, scorer_of
from core.graders.verdict import Errors, Grade, GradingError
from core.spec.formula import parse_formula
from core.spec.grader import GraderSpec, MultiGrader

DEFAULT_LIMITS = Limits()
Pair = tuple[Sample, dict[str, Any]]


def grade(
    spec: GraderSpec, sample: Sample, item: dict[str, Any], limits: Limits = DEFAULT_LIMITS
) -> Grade:
    """What ``sample`` is worth as an answer to the row ``item`` (decoded JSON)."""
    with Grading(spec, limits=limits) as grading:
        return grading.grade(sample, item)


def grade_many(
    spec: GraderSpec, pairs: Sequence[Pair], workers: int = 1, limits: Limits = DEFAULT_LIMITS
) -> list[Grade]:
    """What each pair is worth, in order, by at most ``workers`` processes to each grader."""
    with Grading(spec, workers=workers, limits=limits) as grading:
        return grading.grade_many(pairs)


class Grading(Closing):
    """A grader at work, a context manager. Processes start when needed and end with it.

    A sandbox dies with the thread that started it, so all work is done by threads that live as long.
    """

    def __init__(self, spec: GraderSpec, workers: int = 1, limits: Limits = DEFAULT_LIMITS) -> None:
        if workers < 1:
            raise ValueError(f"workers is {workers}; at least 1 is needed")
        self._seats = [_Seat(spec, limits) for _ in range(workers)]
        self._free: SimpleQueue[_Seat] = SimpleQueue()
        for seat in self._seats:
            self._free.put(seat)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="grading")

    def close(self) -> None:
        """End threads and processes; answers not yet begun are left ungraded."""
        self._threads.shutdown(cancel_futures=True)
        for seat in self._seats:
            seat.close()

    def grade(self, sample: Sample, item: dict[str, Any]) -> Grade:
        """One answer."""
        return self.grade_many([(sample, item)])[0]

    def grade_many(self, pairs: Sequence[Pair]) -> list[Grade]:
        """All answers, in order."""
        return list(self.grades(pairs))

    def grades(self, pairs: Sequence[Pair]) -> Iterator[Grade]:
        """The same, each as soon as it and those before it are known."""
        return self._threads.map(self._grade, pairs)

    def _grade(self, pair: Pair) -> Grade:
        seat = self._free.get()
        try:
            return seat.grade(*pair)
        finally:
            self._free.put(seat)


class _Seat:
    """The scorers of one grader, for one thread at a time."""

    def __init__(self, spec: GraderSpec, limits: Limits) -> None:
        self.spec = spec
        self.parts = spec.by_variable() if isinstance(spec, MultiGrader) else {"": spec}
        self.scorers: dict[str, Scorer] = {
            variable: scorer_of(part, limits) for variable, part in self.parts.items()
        }
        self.formula = (
            parse_formula(spec.calculate_output) if isinstance(spec, MultiGrader) else None
        )

    def close(self) -> None:
        for scorer in self.scorers.values():
            scorer.close()

    def grade(self, sample: Sample, item: dict[str, Any]) -> Grade:
        begun = time.perf_counter()
        namespaces = {"sample": sample.view(), "item": item}
        rewards, errors = self._rewards(namespaces)
        reward = 0.0
        if not errors:
            try:
                reward = rewards[""] if self.formula is None else evaluate(self.formula, rewards)
            except GradingError as error:
                errors = error.errors
        multi = self.formula is not None
        return Grade(
            reward=reward,
            name=self.spec.name,
            type=self.spec.type,
            sub_rewards=rewards if multi else {},
            scores=rewards if multi else {self.spec.name: rewards[""]},
            errors=errors,
            execution_time=time.perf_counter() - begun,
        )

    def _rewards(self, namespaces: dict[str, Any]) -> tuple[dict[str, float], Errors]:
        """Every scorer's reward, 0 where it failed, and what failed."""
        rewards: dict[str, float] = {}
        errors = Errors()
        for variable, scorer in self.scorers.items():
            try:
                rewards[variable] = scorer.score(namespaces)
            except GradingError as error:
                rewards[variable] = 0.0
                errors = errors.merged(error.errors)
        return rewards, errors
