"""/v1/fine_tuning/alpha/graders: is a grader one that can be used, and what does it make of an answer."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from api.auth import SubmitDep
from api.errors import refusal
from api.requests import RunGrader, ValidateGrader
from api.views.grader import GraderRunView, GraderView
from core.graders.check import refusals
from core.graders.grade import grade
from core.graders.sample import Sample
from core.spec.grader import GraderSpec

router = APIRouter(prefix="/fine_tuning/alpha/graders", tags=["Graders"])


@router.post("/validate")
def validate(principal: SubmitDep, body: ValidateGrader) -> GraderView:  # noqa: ARG001 - a key is needed
    """The grader as it is understood; refused as a job with it would be."""
    _refuse_what_cannot_run(body.grader)
    return GraderView(grader=body.grader.model_dump(mode="json", exclude_none=True))


@router.post("/run")
def run(principal: SubmitDep, body: RunGrader) -> GraderRunView:  # noqa: ARG001 - a key is needed
    """What an answer is worth, by the very code that grades in training. An error is a flag, and worth 0."""
    _refuse_what_cannot_run(body.grader)
    verdict = grade(body.grader, Sample(body.model_sample, json_output=True), _item(body))
    return GraderRunView.of(asdict(verdict))


def _item(body: RunGrader) -> dict[str, Any]:
    return dict(body.item or {})


def _refuse_what_cannot_run(grader: GraderSpec) -> None:
    if problems := refusals(grader, "grader"):
        raise refusal(problems)
