"""Learning-rate factors at the points where their closed form is known."""

import math

import pytest

from core.optim import OptionError, constant, cosine, linear


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_the_warm_up_rises_in_equal_parts_from_the_first_step(schedule):
    factors = [schedule(step, 20, 4) for step in range(5)]
    assert factors == [0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize("schedule", [linear, cosine])
@pytest.mark.parametrize("floor", [0.0, 0.1, 1.0])
def test_the_decay_goes_from_the_peak_through_the_middle_to_the_floor(schedule, floor):
    assert schedule(4, 24, 4, floor) == 1.0
    assert schedule(14, 24, 4, floor) == pytest.approx((1.0 + floor) / 2)
    assert schedule(24, 24, 4, floor) == pytest.approx(floor)
    assert schedule(1000, 24, 4, floor) == pytest.approx(floor)


def test_quarter_points_of_line_and_cosine():
    assert linear(25, 100) == 0.75
    assert cosine(25, 100) == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert cosine(50, 100, floor_ratio=0.2) == pytest.approx(0.6)
    assert cosine(100 * 2 // 3 + 1, 100) < cosine(100 // 3, 100)


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_the_last_step_still_moves(schedule):
    assert schedule(9, 10) > 0.0
    assert schedule(0, 1) == 1.0
    assert schedule(2, 3, 3) == 1.0


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_after_the_warm_up_the_factor_never_rises(schedule):
    factors = [schedule(step, 50, 7, 0.05) for step in range(7, 60)]
    assert factors == sorted(factors, reverse=True)
    assert all(0.05 <= factor <= 1.0 for factor in factors)


def test_constant_holds_after_its_warm_up():
    assert [constant(step, warmup_steps=2) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]
    assert constant(10**9) == 1.0


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("step", (-1, 10)),
        ("step", (0.5, 10)),
        ("total_steps", (0, 0)),
        ("warmup_steps", (0, 10, -1)),
        ("warmup_steps", (0, 10, 11)),
        ("floor_ratio", (0, 10, 0, -0.1)),
        ("floor_ratio", (0, 10, 0, 1.1)),
        ("floor_ratio", (0, 10, 0, math.nan)),
    ],
)
@pytest.mark.parametrize("schedule", [linear, cosine])
def test_a_wrong_argument_is_refused_by_name(schedule, field, arguments):
    with pytest.raises(OptionError, match=f"^{field} = "):
        schedule(*arguments)
