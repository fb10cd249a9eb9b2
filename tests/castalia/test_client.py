"""The client either answers or says in one line who refused and what to do."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from castalia.client import (
    DEFAULT_URL,
    Client,
    NoKeyError,
    RefusedError,
    ServiceUnreachableError,
    open_client,
)
from castalia.ports import free_port


@pytest.fixture
def elsewhere():
    """A web server that is no Castalia."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(500 if "broken" in self.path else 200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """Nothing tells where the service is, and nothing lies in the folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("CASTALIA_URL", "CASTALIA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_is_sent_and_read_back(client, tmp_path):
    path = tmp_path / "é.jsonl"
    path.write_bytes(b"{}\n")
    sent = client.upload(path, "user_data")
    assert (sent["filename"], sent["bytes"]) == ("é.jsonl", 3)
    assert client.get("/files", limit=1)["data"] == [sent]
    with client.stream(f"/files/{sent['id']}/content", {}) as answer:
        assert answer.read() == b"{}\n"


def test_a_refusal_is_the_server_s_own_message(client):
    body = {"model": "none", "training_file": "file-x"}
    with pytest.raises(RefusedError) as error:
        client.post("/fine_tuning/jobs", body)
    assert "the model 'none' does not exist; available: toy" in str(error.value)
    assert error.value.remedy == "code model_not_found"
    with pytest.raises(RefusedError), client.stream("/files/none/content", {}):
        pass


def test_a_refusal_shows_the_server_s_hint(service):
    with Client(service.url, "sk-wrong") as client, pytest.raises(RefusedError) as error:
        client.get("/files")
    assert error.value.message == "the API key is not valid"
    assert "castalia keys create" in error.value.remedy


def test_nobody_at_the_url_is_told_with_the_url():
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url + "/", "k") as client, pytest.raises(ServiceUnreachableError) as error:
        client.get("/files")
    assert error.value.exit_code == 3
    assert error.value.message.startswith(f"{url} cannot be reached")
    assert "castalia up" in error.value.remedy


@pytest.mark.parametrize("path", ["/files", "/broken"])
def test_another_web_server_is_found_out(elsewhere, path):
    refused = pytest.raises(RefusedError, match=r"is http.* a Castalia service\?")
    with Client(elsewhere, "k") as client, refused:
        client.get(path)


@pytest.mark.usefixtures("unset")
def test_no_key_is_told_with_the_way_to_one():
    with pytest.raises(NoKeyError, match="set CASTALIA_API_KEY") as error:
        open_client()
    assert error.value.exit_code == 2


@pytest.mark.usefixtures("unset")
def test_the_key_of_a_local_service_is_found(tmp_path):
    secrets = tmp_path / "castalia-data" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "api_key").write_text("sk-local\n")
    with open_client() as client:
        assert client.url == DEFAULT_URL
        assert client._http.headers["authorization"] == "Bearer sk-local"


@pytest.mark.usefixtures("unset")
def test_the_environment_comes_first(monkeypatch):
    monkeypatch.setenv("CASTALIA_URL", "http://h:1/")
    monkeypatch.setenv("CASTALIA_API_KEY", "sk-env")
    with open_client() as client:
        assert client.url == "http://h:1"
        assert client._http.headers["authorization"] == "Bearer sk-env"
