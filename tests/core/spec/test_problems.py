"""A path names only what stands in the user's document, as she would type it."""

import pytest
from pydantic import BaseModel, ValidationError

from core.spec.problems import join_path, problems_of, shown


class Leaf(BaseModel):
    number: int | str


class Root(BaseModel):
    leaves: list[Leaf] = []
    word: int | bool | None = None


def problems(document: object, root: str = ""):
    with pytest.raises(ValidationError) as error:
        Root.model_validate(document, strict=True)
    return problems_of(error.value.errors(), document, root)


def test_an_item_of_a_list_is_named_by_its_number():
    assert {p.path for p in problems({"leaves": [{"number": 1}, {"number": 1.5}]})} == {
        "leaves[1].number"
    }


def test_what_is_missing_is_named_below_its_place():
    (problem,) = problems({"leaves": [{}]}, root="trainer")
    assert (problem.path, problem.code) == (
        "trainer.leaves[0].number",
        "missing_required_parameter",
    )


@pytest.mark.parametrize("value", ["a", {}, {"int": 1}, [1], {"bool": {}}])
def test_the_members_of_a_union_never_show_in_a_path(value):
    assert {p.path for p in problems({"word": value})} <= {"word", "word.int", "word.bool"}
    assert "constrained" not in str(problems({"word": value}))


def test_a_document_that_is_no_object_has_no_path():
    assert [p.path for p in problems([1, 2])] == [""]
    assert [p.path for p in problems(None, root="body")] == ["body"]


@pytest.mark.parametrize(
    ("root", "steps", "path"),
    [
        ("", [], ""),
        ("", ["a"], "a"),
        ("r", ["a", 0, "b"], "r.a[0].b"),
        ("", [3], "[3]"),
    ],
)
def test_steps_are_joined_as_they_are_typed(root, steps, path):
    assert join_path(root, steps) == path


def test_a_long_value_is_cut_and_a_short_one_is_not():
    assert shown("x" * 10) == "'xxxxxxxxxx'"
    assert shown("x" * 1000) == "'" + "x" * 79 + "…"


class Named(BaseModel):
    type: str
    dpo: Leaf


class Method(BaseModel):
    method: Named


def test_a_key_that_a_type_names_is_a_step_of_the_path():
    document = {"method": {"type": "dpo", "dpo": {"number": 1.5}}}
    with pytest.raises(ValidationError) as error:
        Method.model_validate(document, strict=True)
    assert {p.path for p in problems_of(error.value.errors(), document)} == {"method.dpo.number"}
