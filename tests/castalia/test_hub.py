"""A model is pulled from a hub at its commit, whole and safe, or not at all. The hub is of our own."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from castalia.hub import HubError, HubModelRefusedError, NotPinnedError, pull
from core.models.catalog import Catalog

COMMIT = "0a" * 20
NAME = f"org/name@{COMMIT}"
CONFIG = {"architectures": ["LlamaForCausalLM"], "vocab_size": 9}
FILES = {
    "config.json": json.dumps(CONFIG).encode(),
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights" * 1000,
    "pytorch_model.bin": b"pickle",
    "modeling_evil.py": b"raise SystemExit",
    "onnx/model.json": b"{}",
    "../../escaped.json": b"{}",
}


@pytest.fixture
def hub(monkeypatch):
    """A hub with these files; what was fetched from it."""
    files, fetched = dict(FILES), []
    claims = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            fetched.append(self.path)
            resolve = f"/org/name/resolve/{COMMIT}/"
            if self.path == f"/api/models/org/name/revision/{COMMIT}?blobs=true":
                self._answer(json.dumps({"siblings": self._listed()}).encode())
            elif self.path.startswith(resolve) and self.path.removeprefix(resolve) in files:
                self._answer(files[self.path.removeprefix(resolve)])
            else:
                self.send_error(404)

        def _listed(self):
            listed = []
            for name, content in files.items():
                entry = {"rfilename": name, "size": len(content)}
                if name.endswith(".safetensors"):
                    sha256 = claims.get(name, hashlib.sha256(content).hexdigest())
                    entry["lfs"] = {"sha256": sha256}
                listed.append(entry)
            return listed

        def _answer(self, content):
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield files, fetched, claims
        server.shutdown()
        thread.join()


def silent(*_):
    pass


@pytest.mark.usefixtures("hub")
def test_it_holds_what_is_loaded_and_nothing_that_runs(tmp_path):
    folder = pull(NAME, tmp_path, silent)
    assert folder == tmp_path / NAME
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert Catalog(tmp_path, (NAME,)).facts(NAME).vocabulary == 9


def test_what_is_there_is_not_fetched_again(hub, tmp_path):
    _, fetched, _ = hub
    pull(NAME, tmp_path, silent)
    before = len(fetched)
    pull(NAME, tmp_path, silent)
    assert len(fetched) == before


@pytest.mark.parametrize(
    "name", ["org/name", "org/name@main", "name", f"../name@{COMMIT}", f"org/..@{COMMIT}"]
)
def test_a_name_without_a_commit_is_refused_before_anybody_is_asked(hub, tmp_path, name):
    _, fetched, _ = hub
    with pytest.raises(NotPinnedError):
        pull(name, tmp_path, silent)
    assert fetched == []


def test_a_model_of_pickles_is_refused_before_it_is_fetched(hub, tmp_path):
    files, fetched, _ = hub
    del files["model.safetensors"]
    with pytest.raises(HubModelRefusedError, match=r"pytorch_model\.bin"):
        pull(NAME, tmp_path, silent)
    assert len(fetched) == 1


def test_a_model_that_wants_its_code_run_is_refused_before_its_weights_are_fetched(hub, tmp_path):
    files, fetched, _ = hub
    files["config.json"] = json.dumps({**CONFIG, "auto_map": {"AutoConfig": "evil.Evil"}}).encode()
    with pytest.raises(HubModelRefusedError, match="auto_map"):
        pull(NAME, tmp_path, silent)
    assert not any(path.endswith(".safetensors") for path in fetched)
    assert Catalog(tmp_path).names() == []


def test_weights_that_are_not_what_the_hub_says_are_no_model(hub, tmp_path):
    _, _, claims = hub
    claims["model.safetensors"] = "0" * 64
    with pytest.raises(HubError, match="is not what the hub says"):
        pull(NAME, tmp_path, silent)
    assert Catalog(tmp_path).names() == []


@pytest.mark.usefixtures("hub")
def test_a_commit_that_the_hub_has_not_is_told(tmp_path):
    with pytest.raises(HubError, match="answered 404"):
        pull(f"org/name@{'b' * 40}", tmp_path, silent)


def test_a_hub_that_cannot_be_reached_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(HubError, match="cannot be reached"):
        pull(NAME, tmp_path, silent)
