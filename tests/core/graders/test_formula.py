"""Formulas mean what Python's own parser and floats say, and every one that means nothing is an error."""

import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.graders.formula import evaluate
from core.graders.verdict import GradingError
from core.spec.formula import DEEPEST, FUNCTIONS, LONGEST, FormulaError, parse_formula

VALUES = {"x": 0.5, "y": -3.0, "big_1": 1e200}
BY_NAME = {
    **{name: getattr(math, name) for name in ("exp", "sqrt", "log")},
    "min": min,
    "max": max,
    "abs": abs,
    "floor": lambda value: float(math.floor(value)),
    "ceil": lambda value: float(math.ceil(value)),
}
BY_NODE = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.Pow: math.pow,
}


def oracle(node: ast.expr) -> float:
    match node:
        case ast.Constant(value):
            result = float(value)
        case ast.Name(name):
            result = VALUES[name]
        case ast.UnaryOp(_, operand):
            result = -oracle(operand)
        case ast.BinOp(left, operator, right):
            result = BY_NODE[type(operator)](oracle(left), oracle(right))
        case ast.Call(ast.Name(name), arguments):
            result = BY_NAME[name](*map(oracle, arguments))
    if not math.isfinite(result):
        raise OverflowError
    return result


def grown(inner):
    spaced = st.sampled_from([" + ", "-", " * ", "/", " ^ ", "^"])
    return st.one_of(
        st.tuples(inner, spaced, inner).map("".join),
        inner.map("-{}".format),
        inner.map("( {} )".format),
        st.tuples(st.sampled_from([f for f in FUNCTIONS if f not in {"min", "max"}]), inner).map(
            lambda pair: f"{pair[0]}({pair[1]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3)).map(
            lambda pair: f"{pair[0]}({', '.join(pair[1])})"
        ),
    )


atoms = st.sampled_from(["x", "y", "big_1", "2", "0", "1.5", ".25", "3e2", "1E-3", "7."])


@given(st.recursive(atoms, grown, max_leaves=12))
def test_a_formula_is_worth_what_python_says(text):
    try:
        wanted = oracle(ast.parse(text.replace("^", "**"), mode="eval").body)
    except (ArithmeticError, ValueError):
        with pytest.raises(GradingError) as error:
            evaluate(parse_formula(text), VALUES)
        assert error.value.errors.formula_parse_error
        return
    assert evaluate(parse_formula(text), VALUES) == wanted


@given(st.text(alphabet="xy12.e+-*/^(),minax \n$é", max_size=30))
def test_any_text_is_read_or_refused_at_a_place_in_it(text):
    position = 0
    try:
        parse_formula(text)
    except FormulaError as error:
        position = error.position
    assert 0 <= position <= len(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("1 +", 3),
        ("1 2", 2),
        ("(x", 2),
        ("x $ y", 2),
        ("x + sin(y)", 4),
        ("abs(x, y)", 0),
        ("min()", 4),
        ("__import__('os')", 11),
        ("x.y", 1),
    ],
)
def test_a_fault_is_told_with_its_position(text, position):
    with pytest.raises(FormulaError) as error:
        parse_formula(text)
    assert error.value.position == position
    assert f"at character {position}:" in str(error.value)


@pytest.mark.parametrize("opening", ["(", "-", "abs(", "2^"])
def test_depth_is_bounded_before_pythons_own_stack_is(opening):
    with pytest.raises(FormulaError, match="nested deeper"):
        parse_formula(opening * (DEEPEST + 2) + "x")


def test_length_is_bounded_and_a_long_chain_needs_no_stack():
    chain = "x" + "-x" * (LONGEST // 2 - 1)
    assert evaluate(parse_formula(chain), {"x": 1.0}) == 2 - LONGEST // 2
    with pytest.raises(FormulaError, match="at most"):
        parse_formula(chain + "-x")


@pytest.mark.parametrize(
    ("text", "said"),
    [("1/(x-x)", "division by zero"), ("exp(1000)", "overflow"), ("1e999", "overflow")],
)
def test_what_is_no_finite_number_says_which_step_it_was(text, said):
    with pytest.raises(GradingError) as error:
        evaluate(parse_formula(text), VALUES)
    assert said in error.value.errors.other_error_details
