"""Files and functions stay short."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_lengths_are_within_the_limits():
    command = [sys.executable, "scripts/house_figures.py"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
