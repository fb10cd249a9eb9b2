"""One round of chaos for real: whatever was injected, nothing is lost and nothing lies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chaos.verdict import KEYS

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_nothing_is_lost_in_a_round_of_chaos():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.chaos", "--rounds=1", "--seed=0", "--jobs=2", "--json"],
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    report = json.loads(done.stdout)
    assert report["jobs"] == 2
    assert sum(report["faults"].values()) >= 1
    assert {key: report[key] for key in (*KEYS, "broken_rounds")} == dict.fromkeys(
        (*KEYS, "broken_rounds"), 0
    ), report["found"]
