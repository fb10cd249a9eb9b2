"""A broken file, uploaded over HTTP and checked, is told in its report: never a 500, never a traceback."""

import gzip

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.settings import ApiSettings
from worker.prepare import prepare_file

GOOD = b'{"prompt": "a", "completion": "b"}\n'
BROKEN = {
    "empty_file": b"\n\n",
    "invalid_encoding": GOOD.decode().encode("utf-16"),
    "invalid_json": GOOD + b'{"a": "\x00\\u0000"}',
    "invalid_file_format": b'{"\\u0000": "\\u202e"}',
    "damaged_container": gzip.compress(GOOD * 9)[:-5],
    "unsupported_container": b"PK\x03\x04\x00\x00\x00\x00\x00",
    "duplicate_key": b'{"prompt": 1, "prompt": 2}',
    "no_preference": b'{"prompt": "a", "chosen": "b", "rejected": "b"}',
    "no_trainable_tokens": b'{"text": ""}',
}
PARQUET = b"PAR1" + b"\xff" * 40 + b"\x10\0\0\0PAR1"


@pytest.fixture
def client(database_url, broker_url, toy_models_dir, secret):
    settings = ApiSettings(
        database_url=database_url, broker_url=broker_url, models_dir=toy_models_dir
    )
    app = create_app(settings)
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        yield client
    app.state.service.database.close()


@pytest.mark.parametrize("data", [GOOD * 3, gzip.compress(GOOD, mtime=0)])
def test_a_good_file_is_processed(client, context, data):
    assert _checked(client, context, data)["status"] == "processed"


def test_broken_files_end_in_a_report_with_their_code(client, context):
    for code, data in [*BROKEN.items(), ("damaged_container", PARQUET)]:
        file = _checked(client, context, data)
        first = file["validation"]["problems"][0]
        assert (file["status"], first["code"]) == ("error", code)
        assert code in file["status_details"]
        body = {"model": "toy", "training_file": file["id"]}
        answer = client.post("/v1/fine_tuning/jobs", json=body)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("invalid_training_file", "training_file")


def _checked(client, context, data):
    form = {"files": {"file": ("t", data)}, "data": {"purpose": "fine-tune"}}
    answer = client.post("/v1/files", **form)
    assert answer.status_code == 200, answer.text
    prepare_file(context, answer.json()["id"])
    return client.get(f"/v1/files/{answer.json()['id']}").json()
