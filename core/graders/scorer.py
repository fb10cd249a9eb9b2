"""One grader that is no multi grader, made ready: from the namespaces of an answer to a number."""

from typing import Any, Protocol

from core.graders.bench import Bench, BenchDown, GradingFailed, Job
from core.graders.closing import Closing
from core.graders.inside.confine import Limits
from core.graders.sandbox import SandboxUnavailable
from core.graders.string_check import string_check
from core.graders.template import render, value_of
from core.graders.verdict import Errors, GradingError
from core.spec.grader import (
    MathGrader,
    Part,
    PythonGrader,
    ReasoningGymGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from core.spec.template import Reference, parse_template

Namespaces = dict[str, Any]


class Scorer(Protocol):
    """What every kind of grader is once it is ready. Not to be shared by threads at one time."""

    def score(self, namespaces: Namespaces) -> float:
        """What ``item`` and ``sample`` are worth, finite. Raises GradingError."""

    def close(self) -> None:
        """Give back what it holds."""


class StringChecker:
    """string_check: needs no process."""

    def __init__(self, spec: StringCheckGrader) -> None:
        self.operation = spec.operation
        self.input = parse_template(spec.input)
        self.reference = parse_template(spec.reference)

    def score(self, namespaces: Namespaces) -> float:
        """1 or 0."""
        text = render(self.input, namespaces)
        return string_check(text, render(self.reference, namespaces), self.operation)

    def close(self) -> None:
        """Nothing is held."""


class BenchScorer(Closing):
    """A grader whose work is done in a process of its own."""

    def __init__(self, job: Job, limits: Limits) -> None:
        self.bench = Bench(job, limits)

    def close(self) -> None:
        """End the process."""
        self.bench.close()

    def payload(self, namespaces: Namespaces) -> dict[str, Any]:
        """What the process is told about an answer. Raises GradingError for a missing variable."""
        return namespaces

    def ask(self, payload: dict[str, Any]) -> float:
        """The process's verdict. Raises GradingError."""
        self.start()
        try:
            return self.bench.ask(payload)
        except GradingFailed as failed:
            raise GradingError(self.failed(str(failed), late=failed.late)) from None

    def start(self) -> None:
        """Start the process unless it runs. Raises GradingError."""
        try:
            self.bench.start()
        except (BenchDown, SandboxUnavailable) as down:
            raise GradingError(self.down(str(down))) from None

    def score(self, namespaces: Namespaces) -> float:
        """The process's verdict on an answer."""
        return self.ask(self.payload(namespaces))

    def failed(self, details: str, *, late: bool) -> Errors:
        """The flags of a grading that came to nothing."""
        return Errors(other_error=True, other_error_details=details, unresponsive_reward_error=late)

    def down(self, details: str) -> Errors:
        """The flags where no process starts."""
        return Errors(other_error=True, other_error_details=details)


class PythonScorer(BenchScorer):
    """python: the namespaces as they are, and flags of its own."""

    def __init__(self, spec: PythonGrader, limits: Limits) -> None:
        super().__init__(Job("python", {"source": spec.source}, strangers=True), limits)

    def failed(self, details: str, *, late: bool) -> Errors:
        """The source's fault."""
        return Errors(
            python_grader_runtime_error=True,
            python_grader_runtime_error_details=details,
            unresponsive_reward_error=late,
        )

    def down(self, details: str) -> Errors:
        """Not the source's fault."""
        return Errors(python_grader_server_error=True, python_grader_server_error_type=details)


class PairScorer(BenchScorer):
    """math and text_similarity: two texts."""

    def __init__(self, spec: MathGrader | TextSimilarityGrader, limits: Limits) -> None:
        settings = {} if isinstance(spec, MathGrader) else {"metric": spec.evaluation_metric}
        super().__init__(Job(spec.type, settings), limits)
        self.threshold = None if isinstance(spec, MathGrader) else spec.pass_threshold
        self.input = parse_template(spec.input)
        self.reference = parse_template(spec.reference)

    def payload(self, namespaces: Namespaces) -> dict[str, Any]:
        """Both texts."""
        text = render(self.input, namespaces)
        return {"input": text, "reference": render(self.reference, namespaces)}

    def score(self, namespaces: Namespaces) -> float:
        """The likeness, or by a threshold 1 or 0."""
        likeness = super().score(namespaces)
        return likeness if self.threshold is None else float(likeness >= self.threshold)


class TaskScorer(BenchScorer):
    """reasoning_gym: a text, and the entry that it answers."""

    def __init__(self, spec: ReasoningGymGrader, limits: Limits) -> None:
        super().__init__(Job("reasoning_gym", {"dataset": spec.dataset}), limits)
        self.input = parse_template(spec.input)
        (entry,) = parse_template(spec.entry)
        assert isinstance(entry, Reference)
        self.entry = entry

    def payload(self, namespaces: Namespaces) -> dict[str, Any]:
        """The text and the entry."""
        entry = value_of(self.entry, namespaces)
        return {"input": render(self.input, namespaces), "entry": entry}


def scorer_of(part: Part, limits: Limits) -> Scorer:
    """``part`` made ready; no process starts before it is asked."""
    if isinstance(part, StringCheckGrader):
        return StringChecker(part)
    if isinstance(part, PythonGrader):
        return PythonScorer(part, limits)
    if isinstance(part, ReasoningGymGrader):
        return TaskScorer(part, limits)
    return PairScorer(part, limits)
