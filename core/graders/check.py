"""What is asked of a grader at submission beyond its words: whether what would grade exists here.

It is answered by starting what would grade, and for source of a user's by running its definitions, in the
sandbox: then a job is refused here, not after it has sampled a batch.
"""

from core.graders.inside.confine import Limits
from core.graders.scorer import BenchScorer, PythonScorer, scorer_of
from core.graders.verdict import GradingError
from core.spec.grader import GraderSpec, MultiGrader, Part, PythonGrader, ReasoningGymGrader
from core.spec.problems import Problem, join_path


def refusals(spec: GraderSpec, path: str = "", limits: Limits | None = None) -> list[Problem]:
    """Why ``spec`` cannot grade on this machine, with paths below ``path``; empty if it can.

    It starts a process for each grader that needs one: seconds, where a library is large.
    """
    limits = limits or Limits()
    if not isinstance(spec, MultiGrader):
        return _refusal(spec, path, limits)
    problems: list[Problem] = []
    for step, part in _members(spec):
        problems += _refusal(part, join_path(path, step), limits)
    return problems


def _members(spec: MultiGrader) -> list[tuple[list[str | int], Part]]:
    if isinstance(spec.graders, dict):
        return [(["graders", variable], part) for variable, part in spec.graders.items()]
    if isinstance(spec.graders, list):
        return [(["graders", number], part) for number, part in enumerate(spec.graders)]
    return [(["graders"], spec.graders)]


def _refusal(part: Part, path: str, limits: Limits) -> list[Problem]:
    scorer = scorer_of(part, limits)
    if not isinstance(scorer, BenchScorer):
        return []
    with scorer:
        try:
            _begin(scorer)
        except GradingError as error:
            e = error.errors
            said = (
                e.python_grader_runtime_error_details
                or e.python_grader_server_error_type
                or e.other_error_details
            )
            field = _field_at_fault(part, by_source=e.python_grader_runtime_error)
            return [Problem(join_path(path, field), str(said), "grader_invalid")]
    return []


def _begin(scorer: BenchScorer) -> None:
    scorer.start()
    if isinstance(scorer, PythonScorer):
        scorer.ask({"only_define": True})


def _field_at_fault(part: Part, *, by_source: bool) -> list[str | int]:
    if isinstance(part, PythonGrader) and by_source:
        return ["source"]
    if isinstance(part, ReasoningGymGrader):
        return ["dataset"]
    return []
