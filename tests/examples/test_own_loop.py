"""The example of one's own loop runs as it stands, trains, and stays short."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "own_loop.py"


def test_a_stock_model_learns_in_somebodys_own_loop(toy_model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("ab" * 25 + "\n")
    shorter = tmp_path / "own_loop.py"  # contexts of 7 tokens, so that steps accumulate
    shorter.write_text(SCRIPT.read_text().replace("32_768, 4", "7, 3"))
    done = subprocess.run(
        [sys.executable, shorter, toy_model, text],
        capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = re.findall(r"^(\d+) tokens, loss (\d+\.\d+)$", done.stdout, re.MULTILINE)
    assert [int(tokens) for tokens, _ in steps] == [21, 21, 2]  # the last row is cut short
    assert float(steps[1][1]) < float(steps[0][1])


def test_it_takes_less_than_forty_lines():
    assert len(SCRIPT.read_text().splitlines()) < 40
