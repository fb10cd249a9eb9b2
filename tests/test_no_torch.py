"""Neither the API nor the Celery process imports torch: CUDA lives and dies with the trainer."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "safetensors", "accelerate", "numpy")


@pytest.mark.parametrize(
    "module", ["api.app", "worker.app", "migrations", "core.store.objects", "core.graders.check"]
)
def test_a_fresh_interpreter_stays_light(module):
    code = f"import sys, {module}; print(*[m for m in {HEAVY} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == []
