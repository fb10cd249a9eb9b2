"""A template gives exactly what stands in the row or the answer, or an error; never something near it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.graders.sample import Sample
from core.graders.template import LONGEST_TEXT, render
from core.graders.verdict import GradingError
from core.spec.template import TemplateError, parse_template

ITEM = {
    "x": [{"y": "deep"}],
    "n": 3,
    "none": None,
    "of-dash": {"é": [[7]]},
    "braces": "{{ item.n }}",
}


def filled(text, item=None, **sample):
    view = Sample(**{"output_text": "out", **sample}).view()
    return render(parse_template(text), {"item": ITEM if item is None else item, "sample": view})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{ item.x[0].y }}", "deep"),
        ("{{item.n}}{{ item.n }}", "33"),
        ("a }} b { c", "a }} b { c"),
        ("{{ item.none }}", "null"),
        ("{{ item.x }}", '[{"y": "deep"}]'),
        ("{{ item.of-dash.é[0][0] }}", "7"),
        ("{{ item.braces }}", "{{ item.n }}"),
        ("{{ sample.output_text }}", "out"),
        ("{{ sample.choices[0].message.content }}", "out"),
        ("{{ sample.output_tools }}", "[]"),
    ],
)
def test_a_reference_is_replaced_by_its_value_once(text, wanted):
    assert filled(text) == wanted


def test_an_answer_is_read_as_json_and_tool_calls_are_seen():
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert filled("{{ sample.output_json[1] }}", output_text="[1, 2]", json_output=True) == "2"
    assert filled("{{ sample.output_tools[0].function.name }}", output_tools=(call,)) == "f"


@pytest.mark.parametrize(
    "text",
    ["item.z", "item.x[1]", "item.x.y", "item.n[0]", "item.none.a", "item.x[0][0]", "item.n.real"],
)
def test_what_is_not_there_is_an_invalid_variable(text):
    with pytest.raises(GradingError) as error:
        filled(f"{{{{ {text} }}}}")
    assert error.value.errors.flags() == ["invalid_variable_error"]
    assert text in error.value.errors.other_error_details


@pytest.mark.parametrize("output", ["not json", "[" * 10**5, ""])
def test_an_answer_that_is_no_json_is_said_to_be_none(output):
    with pytest.raises(GradingError) as error:
        filled("{{ sample.output_json }}", output_text=output, json_output=True)
    assert error.value.errors.flags() == ["sample_parse_error", "invalid_variable_error"]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a {{ item.x", 2),
        ("{{ row.x }}", 3),
        ("{{}}", 2),
        ("{{ item. }}", 7),
        ("{{ item.x[-1] }}", 9),
        ("{{ item.x[0 }}", 9),
        ("{{ item x }}", 7),
        ("{{ sample.output_audio }}", 2),
        ("{{ item | upper }}", 7),
    ],
)
def test_a_template_that_means_nothing_is_refused_where_it_does(text, position):
    with pytest.raises(TemplateError) as error:
        parse_template(text)
    assert error.value.position == position


@given(st.text(alphabet="{}itemsaple.[]0x é", max_size=40))
def test_any_text_is_read_or_refused_at_a_place_in_it(text):
    position = 0
    try:
        parts = parse_template(text)
        assert "{{" in text or "".join(parts) == text
    except TemplateError as error:
        position = error.position
    assert 0 <= position <= len(text)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_any_value_comes_out_as_it_went_in(value):
    text = filled("{{ item.v }}", {"v": value})
    assert text == value if isinstance(value, str) else json.loads(text) == value


def test_a_text_without_end_is_an_error_not_an_empty_memory():
    with pytest.raises(GradingError) as error:
        filled("{{ item.v }}" * 10, {"v": "a" * (LONGEST_TEXT // 9)})
    assert error.value.errors.truncated_observation_error
