"""The survey of families, in short: six that between them show every answer but 'wrong'."""

import pytest

from benchmarks.exactness import examine_all
from benchmarks.families import registered_types, toy_model
from benchmarks.family_table import Family, page, summary

FAMILIES = ["llama", "gemma2", "qwen3_moe", "bloom", "bart", "blt"]


@pytest.fixture(scope="module")
def survey():
    return list(examine_all(FAMILIES))


def test_every_kind_of_answer_is_given(survey):
    status = {family.model_type: family.status for family in survey}
    assert list(status) == FAMILIES
    assert [status[name] for name in ("llama", "gemma2", "qwen3_moe")] == ["streamed"] * 3
    assert status["bloom"] in {"streamed", "checkpointed"}
    assert status["bart"] in {"streamed", "checkpointed", "refused"}
    assert status["blt"] == "unbuilt"


def test_none_is_wrong_and_the_exact_are_exact_to_ten_digits(survey):
    found = summary(survey)
    assert found["families_wrong"] == 0
    assert found["families_exact"] >= 4
    assert found["worst_relative_error"] < 1e-10


def test_the_table_has_a_row_for_each(survey):
    rows = page(survey, summary(survey)).splitlines()
    assert all(any(row.startswith(f"| {name} |") for row in rows) for name in FAMILIES)


def test_a_wrong_family_is_counted_and_is_not_among_the_exact():
    families = [Family("a", "streamed", 1e-14), Family("b", "wrong", 0.5, reason="w | off")]
    found = summary(families)
    assert (found["families_wrong"], found["families_exact"]) == (1, 1)
    assert found["worst_relative_error"] == 1e-14
    assert "| b | wrong |  | 5e-01 |  | w \\| off |" in page(families, found)


def test_a_toy_keeps_every_kind_of_layer():
    assert set(toy_model("qwen3_next").config.layer_types) == {"linear_attention", "full_attention"}
    assert len(toy_model("gemma2").model.layers) == 2


def test_all_registered_types_are_surveyed():
    assert {"llama", "qwen3", "mamba", "bart"} <= set(registered_types())
    assert len(registered_types()) > 150
