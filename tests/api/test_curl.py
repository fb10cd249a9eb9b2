"""A download that was cut goes on in mid-file with curl, and never arrives compressed."""

import shutil
import subprocess

import pytest

CONTENT = bytes(range(256)) * 4000
CUT_AT = 300_001

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")


@pytest.fixture
def curl(serve, settings, client, training_file, tmp_path):
    """Runs curl on a stored file; what it wrote of itself."""
    url = f"{serve(settings).url}/v1/files/{training_file(CONTENT)}/content"
    header = f"authorization: {client.headers['authorization']}"

    def run(*words: str) -> str:
        command = [
            "curl",
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--header",
            header,
            *words,
        ]
        return subprocess.run(
            [*command, url], check=True, cwd=tmp_path, capture_output=True, text=True
        ).stdout

    return run


def test_it_goes_on_where_it_was_cut(curl, tmp_path):
    part = tmp_path / "w.safetensors"
    part.write_bytes(CONTENT[:CUT_AT])
    told = curl("-C", "-", "-o", part.name, "-w", "%{http_code} %{size_download}")
    assert told == f"206 {len(CONTENT) - CUT_AT}"
    assert part.read_bytes() == CONTENT


def test_what_is_whole_already_stays_so(curl, tmp_path):
    whole = tmp_path / "w.safetensors"
    whole.write_bytes(CONTENT)
    curl("-C", "-", "-o", whole.name)
    assert whole.read_bytes() == CONTENT


def test_it_is_saved_under_its_own_name(curl, tmp_path):
    curl("--remote-name", "--remote-header-name")
    assert (tmp_path / "t.jsonl").read_bytes() == CONTENT


def test_it_is_never_compressed(curl):
    head = curl("--head", "--header", "accept-encoding: gzip, br, zstd").lower()
    assert "content-encoding" not in head
    assert f"content-length: {len(CONTENT)}" in head
