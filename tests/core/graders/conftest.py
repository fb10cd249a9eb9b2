"""Graders as a user writes them, and answers to grade."""

import pytest

from core.graders.grade import grade
from core.graders.inside.confine import Limits
from core.graders.sample import Sample
from core.graders.sandbox import sandbox_available
from core.spec.grader import parse_grader


@pytest.fixture
def sandbox():
    """A sandbox works here; else the test is skipped with the reason."""
    if (reason := sandbox_available()) is not None:
        pytest.skip(reason)


@pytest.fixture
def graded():
    """Grade one answer by a document; arguments of Sample by name."""

    def run(document, text="", item=None, seconds=20.0, **sample):
        limits = Limits(seconds)
        return grade(parse_grader(document), Sample(text, **sample), item or {}, limits)

    return run
