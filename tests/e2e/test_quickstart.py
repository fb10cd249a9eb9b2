"""The quickstart of the README works as printed; only address and model are this test's."""

import re
import subprocess
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def quickstart() -> str:
    found = re.search(r"<!-- quickstart -->\n```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_curl_quickstart_ends_with_weights(service, rows_file, tmp_path):
    folder = tmp_path / "castalia-data"
    folder.symlink_to(service.data)
    data = tmp_path / "examples" / "data"
    data.mkdir(parents=True)
    rows_file(16).rename(data / "devils_dictionary.train.jsonl")
    script = (
        quickstart()
        .replace("http://127.0.0.1:8000", service.url)
        .replace("SmolLM2-135M-Instruct", "toy")
        .replace('"context_length": 1024', '"context_length": 512')
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout
    assert (tmp_path / "tuned" / "model.safetensors").stat().st_size > 100_000
