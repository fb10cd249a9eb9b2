"""A document that a user could have typed, and ways to put something wrong into it."""

import copy
from typing import Any

import pytest

from core.spec.job import JobSpec
from core.spec.tree import SpecError


@pytest.fixture
def document() -> dict[str, Any]:
    return {"model": "m", "training_file": "t"}


@pytest.fixture
def refused(document):
    """The problems of the document with ``value`` put at ``path``; the value must be refused."""

    def problems(path: str, value: Any):
        with pytest.raises(SpecError) as refusal:
            JobSpec.parse(with_value(document, path, value))
        return refusal.value.problems

    return problems


def with_value(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    here = changed
    for step in parents:
        here = here.setdefault(step, {"kind": "apollo"} if step == "optimizer" else {})
    here[last] = value
    return changed
