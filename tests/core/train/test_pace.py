"""The time that is left follows from the rows that are left, not from the steps."""

from collections import Counter

import pytest

from core.data.order import steps
from core.train.meter import Meter
from core.train.pace import Pace, tokens_by_bucket, tokens_left

LINEAR, QUADRATIC = 1e-3, 1e-6  # seconds of a token, and of a pair of tokens


def seconds(length):
    return LINEAR * length + QUADRATIC * length * length


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def run():
    """Walks steps of one row each; what was said to be left after each, and what really was."""

    def walk(lengths, upto, between=0.0):
        clock = Clock()
        meter = Meter(Pace(tokens_by_bucket(lengths)), len(lengths), clock)
        for length in lengths[:upto]:
            clock.now += between
            meter.begin()
            clock.now += seconds(length)
            meter.step(length, [length])
        return meter.seconds_left, sum(seconds(x) + between for x in lengths[upto:])

    return walk


def test_long_rows_that_are_left_take_their_own_time(run):
    told, real = run([1024, 65536] + [1024] * 50 + [65536] * 10, upto=52)
    assert told == pytest.approx(real, rel=1e-6)


def test_lengths_that_were_never_seen_lie_on_the_line_of_those_that_were(run):
    told, real = run([1024, 4096] + [32768] * 5 + [2048] * 5, upto=2)
    assert told == pytest.approx(real, rel=1e-6)


def test_what_lies_between_steps_is_left_as_often_as_steps_are(run):
    told, real = run([1024] * 20, upto=4, between=3.0)
    assert told == pytest.approx(real, rel=1e-6)


def test_evaluation_is_no_part_of_a_step():
    clock = Clock()
    meter = Meter(Pace(Counter()), 2, clock)
    clock.now += 50.0
    meter.begin()
    clock.now += 2.0
    assert meter.step(10, [10])["step_seconds"] == pytest.approx(2.0)


def test_steps_of_mixed_rows_come_out_right_as_a_whole():
    lengths = [512, 16384] * 40
    pace = Pace(tokens_by_bucket(lengths))
    for start in range(0, 40, 4):
        mixed = lengths[start : start + 4]
        pace.see(mixed, sum(map(seconds, mixed)))
    assert pace.seconds_left == pytest.approx(sum(map(seconds, lengths[40:])), rel=1e-6)


def test_nothing_is_left_at_the_end_and_nothing_is_known_before_the_first_step():
    pace = Pace(tokens_by_bucket([8, 9]))
    assert pace.seconds_left == 0.0
    pace.see([8, 9], 1.0)
    assert pace.seconds_left == 0.0


@pytest.mark.parametrize("done", [0, 3, 4, 11])
@pytest.mark.parametrize("updates", [1, 2])
def test_what_is_left_of_whole_epochs_is_counted_to_the_token(done, updates):
    lengths = [10, 20, 40, 80, 160, 320, 640]
    walked = steps(len(lengths), 2, 3, 7, updates=updates)
    real = tokens_by_bucket(lengths[row] for k in range(done, len(walked)) for row in walked[k])
    assert tokens_left(lengths, walked, done) == real
