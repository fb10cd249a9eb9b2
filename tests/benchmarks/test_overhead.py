"""What the service costs a job, on a job of two steps: the figures are there, and of both ways."""

import pytest

from benchmarks.overhead import overhead


@pytest.mark.slow
def test_both_ways_are_measured(tmp_path):
    report = overhead(tmp_path, rounds=1, steps=2)
    assert report["overhead_ratio"] > 0
    assert report["overhead_cpu_ratio"] > 0
    assert report["first_step_alone_s"] > report["steps_alone_s"] > 0
    assert -report["first_step_alone_s"] < report["queue_to_first_step_s"] < 60
