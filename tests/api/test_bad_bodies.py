"""Whatever bytes stand for a body, the answer is the envelope and never a 5xx."""

import json

import pytest

JOBS = "/v1/fine_tuning/jobs"
JSON = {"content-type": "application/json"}


@pytest.fixture
def refused(client):
    def post(content: bytes, headers=JSON):
        answer = client.post(JOBS, content=content, headers=headers)
        assert answer.status_code == 400, answer.text
        return answer.json()["error"]

    return post


@pytest.mark.parametrize(
    "content",
    [b"{", b"{'a': 1}", b'{"a": 1,}', b"model=tiny", b"\x00", b"nul", b'{"a": 1} x', b" "],
)
def test_what_is_not_json_is_told_with_its_place(refused, content):
    error = refused(content)
    assert error["code"] == "invalid_json"
    assert "at character" in error["message"]


@pytest.mark.parametrize("content", [b"", b"[]", b'"a"', b"null", b"1", b"true", b"NaN"])
def test_json_that_is_no_object_is_refused(refused, content):
    assert refused(content)["message"].startswith("Invalid body")


@pytest.mark.parametrize(
    "content", [b'{"model": "\xff\xfe"}', b"\xff\xfe\x00", b'{"seed": ' + b"9" * 5000 + b"}"]
)
def test_what_cannot_be_decoded_is_refused(refused, content):
    assert refused(content)["type"] == "invalid_request_error"


@pytest.mark.parametrize("depth", [10, 900, 960, 990, 1100, 40_000])
@pytest.mark.parametrize("field", ["integrations", "metadata", "trainer", "anything"])
def test_nesting_of_any_depth_is_refused(refused, body, depth, field):
    text = json.dumps(body)[:-1] + f', "{field}": {"[" * depth + "]" * depth}}}'
    refused(text.encode())


@pytest.mark.parametrize("depth", [10, 900, 960, 1100])
def test_an_optimizer_of_any_depth_is_refused(refused, body, depth):
    deep = '{"a": ' * depth + "1" + "}" * depth
    refused((json.dumps(body)[:-1] + f', "trainer": {{"optimizer": {deep}}}}}').encode())


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 4000])
def test_a_number_beyond_all_numbers_is_refused_by_its_name(refused, body, number):
    text = json.dumps(body).encode()[:-1]
    error = refused(text + b', "trainer": {"learning_rate": ' + number + b"}}")
    assert error["param"] == "trainer.learning_rate"


@pytest.mark.parametrize(
    "fragment",
    [
        r'"\ud800": 1',
        r'"model": "\ud800"',
        r'"metadata": {"a": "\ud800"}',
        r'"metadata": {"\ud800": "a"}',
        r'"trainer": {"\ud800": 1}',
        r'"trainer": {"optimizer": {"kind": "\ud800"}}',
        r'"trainer": {"optimizer": {"kind": "sgd", "\ud800": 1}}',
        r'"hyperparameters": {"n_epochs": "\ud800"}',
        r'"method": {"type": "dpo", "dpo": {"\ud800": 1}}',
    ],
)
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(refused, body, fragment):
    refused((json.dumps(body)[:-1] + ", " + fragment + "}").encode())


@pytest.mark.parametrize(
    "type_", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "a", ""]
)
def test_a_body_that_does_not_say_it_is_json_is_refused(refused, body, type_):
    refused(json.dumps(body).encode(), headers={"content-type": type_})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_every_encoding_of_json_is_read(client, body, encoding):
    content = json.dumps(body).encode(encoding)
    assert client.post(JOBS, content=content, headers=JSON).status_code == 200


def test_a_cancel_needs_no_body_though_it_says_json(client, body):
    job_id = client.post(JOBS, json=body).json()["id"]
    answer = client.post(f"{JOBS}/{job_id}/cancel", headers=JSON)
    assert answer.json()["status"] == "cancelled"
