"""The served OpenAPI is true: schemathesis sends what it allows and what it forbids, all checks on."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CONFIG = Path(__file__).with_name("schemathesis.toml")
BUDGET_S = 30


@pytest.fixture
def things(client, body):
    """A file, an upload and a job that has ended, whose ids lists give to what comes."""
    job = client.post("/v1/fine_tuning/jobs", json=body).json()
    client.post(f"/v1/fine_tuning/jobs/{job['id']}/cancel")
    new = {"filename": "f", "purpose": "user_data", "bytes": 9, "mime_type": "x"}
    client.post("/v1/uploads", json=new)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")
@pytest.mark.usefixtures("things")
def test_nothing_is_answered_otherwise_than_described(serve, settings, client, tmp_path):
    service = serve(settings.model_copy(update={"requests_per_minute": 0, "preview_limit_s": 5.0}))
    key = client.headers["authorization"]
    command = (
        sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run",
        f"{service.url}/openapi.json", "--header", f"Authorization: {key}",
        "--checks", "all", "--max-time", BUDGET_S, "--no-color",
    )  # fmt: skip
    ran = subprocess.run(
        [*map(str, command)], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
