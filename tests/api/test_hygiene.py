"""What browsers are told; nothing a client sends comes back as a header, a redirect or a line of a log."""

import logging

import pytest

from api.hygiene import disposition, shown_path
from core.store.keys import new_secret

HOSTS = ["evil.example", "evil.example/x?y", "[", "a b", "x\ty", "\xff"]


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/nothing", "/openapi.json", "/"])
def test_an_answer_is_for_no_page_and_for_no_cache(client, path):
    headers = client.get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_pages_are_off_unless_asked_for_and_say_whose_code_they_run(
    client, change_app, open_client, project
):
    assert [client.get(page).status_code for page in ("/docs", "/redoc")] == [404, 404]
    page = open_client(change_app(docs_pages=True), project).get("/docs")
    assert page.status_code == 200
    assert (
        "script-src 'unsafe-inline' https://cdn.jsdelivr.net;"
        in page.headers["content-security-policy"]
    )


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/v1/files/", "/v1/nothing", "/v1/models", "/healthz/"])
def test_no_answer_depends_on_the_host(client, path, host):
    usual = client.get(path)
    answer = client.get(path, headers={"host": host.encode("latin-1")})
    assert (answer.status_code, answer.content) == (usual.status_code, usual.content)
    assert "evil" not in str(answer.headers)
    assert "location" not in answer.headers


def test_a_request_id_of_the_client_s_own_is_not_read(client):
    answer = client.get("/v1/models", headers={"x-request-id": "mine"})
    assert answer.headers.get_list("x-request-id") == [answer.headers["x-request-id"]]
    assert answer.headers["x-request-id"].startswith("req_")


def test_a_path_cannot_write_a_line_of_the_log(client, caplog):
    with caplog.at_level(logging.INFO, logger="api.access"):
        client.get("/v1/files/a%0d%0areq_forged%20GET%20/")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "api.access"]
    assert "\n" not in line
    assert "\r" not in line
    assert "/v1/files/a%0D%0Areq_forged%20GET%20/" in line


def test_a_key_in_a_path_is_not_written_down(client, caplog):
    secret = new_secret()
    with caplog.at_level(logging.DEBUG):
        client.get(
            f"/v1/files/{secret}?key={secret}", headers={"authorization": f"Bearer {secret}"}
        )
        client.get(f"/{secret}")
    ours = [record.getMessage() for record in caplog.records if record.name != "httpx2"]
    assert not [line for line in ours if secret in line]
    assert [line for line in ours if "sk-castalia-…" in line]


def test_a_long_path_is_cut():
    assert len(shown_path({"path": "/" + "é" * 9000})) == 200


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a.jsonl", "a.jsonl"),
        ("checkpoint/model 1.safetensors", "model 1.safetensors"),
        ('x"; filename="y', "x__ filename__y"),
        ("../ü\r\nset-cookie: a=b", "___set-cookie_ a_b"),
    ],
)
def test_a_file_is_saved_under_its_name_and_nothing_else(name, plain):
    value = disposition(name)
    assert value.startswith(f'attachment; filename="{plain}"; ')
    assert not set("\r\n") & set(value)
