"""The benchmark of a step's whole memory: one small case for real, the rest from given figures."""

import json
from dataclasses import asdict, replace

import pytest

from benchmarks.state import CASES, planned_bytes, report_of, run
from benchmarks.state_step import StateCase, StateMeasured

TOY = {"hidden": 128, "intermediate": 352, "layers": 2}


def test_every_case_has_a_key_and_7_billion_parameters_a_plan():
    found = [(case, StateMeasured(case.name, 10, 40)) for case in CASES]
    report = report_of(found)
    for name in ("adamw_float32", "apollo_mini_fused_float32", "apollo_mini_fused_bfloat16",
                 "apollo_mini_fused_int8"):  # fmt: skip
        assert report[f"bytes_per_parameter_{name}"] == 4
        assert f"plan_error_{name}" in report
    assert 6 < report["predicted_7b_gib"] < 12


def test_the_plan_of_large_equal_layers_is_near_what_theory_says():
    bytes_of = {case.name: planned_bytes(case) / (12.6e6 * 24) for case in CASES}
    assert bytes_of["adamw_float32"] == pytest.approx(16, rel=0.1)
    assert bytes_of["apollo_mini_fused_float32"] < 4.6
    assert bytes_of["apollo_mini_fused_int8"] < 1.6


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_a_case_runs_in_a_process_of_its_own(case):
    case = replace(case, **TOY)
    assert StateCase.parse(json.dumps(asdict(case))) == case
    found = run(case)
    assert found.name == case.name
    assert 2 * 128 * 352 < found.parameters < 10**7
    assert found.peak_bytes > found.parameters
