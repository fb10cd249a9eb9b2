"""The JSON Schema tells a user everything: each node is described, each number is bounded."""

from typing import Any

import pytest

from core.spec.job import JobSpec
from core.spec.trainer import TrainerSpec

SCHEMA = JobSpec.model_json_schema()
NODES = SCHEMA["$defs"] | {"JobSpec": SCHEMA}
FIELDS = [
    pytest.param(field, id=f"{name}.{key}")
    for name, node in NODES.items()
    for key, field in node["properties"].items()
]


def shapes(field: dict[str, Any]) -> list[dict[str, Any]]:
    return [shape for shape in field.get("anyOf", [field]) if shape.get("type") != "null"]


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_every_node_is_described_and_closed(node):
    assert node["description"].strip()
    assert node["additionalProperties"] is False


@pytest.mark.parametrize("field", FIELDS)
def test_every_value_that_can_be_chosen_is_described(field):
    if {"type", "anyOf", "enum"} & field.keys() and "const" not in field:
        assert field["description"].strip()


@pytest.mark.parametrize("field", FIELDS)
def test_every_number_is_bounded_on_both_sides(field):
    for shape in shapes(field):
        if shape.get("type") in ("integer", "number"):
            assert {"minimum", "exclusiveMinimum"} & shape.keys()
            assert {"maximum", "exclusiveMaximum"} & shape.keys()


@pytest.mark.parametrize("field", FIELDS)
def test_every_text_is_bounded_or_one_of_a_few(field):
    for shape in shapes(field):
        if shape.get("type") == "string":
            assert {"maxLength", "const", "enum"} & shape.keys()


def test_only_a_job_and_a_reward_ask_for_anything():
    required = {name: node["required"] for name, node in NODES.items() if "required" in node}
    graders = {name for name in required if name.endswith("Grader")}
    assert {name: required[name] for name in required.keys() - graders} == {
        "JobSpec": ["model", "training_file"],
        "GrpoSpec": ["grader"],
    }


def test_the_trainers_default_is_valid_by_itself():
    assert TrainerSpec.parse({}) == TrainerSpec()
