"""Errors as this client's exceptions, and tries again that make nothing twice."""

from typing import Any
from uuid import uuid4

import openai
from case import Case, refused

TIMEOUT_S = 4.0
MORE_TRIES = 4


def _made_once(how: str) -> Any:
    def check(case: Case) -> None:
        url = case.told["proxy_url"]
        retrying = case.open(url=url, max_retries=MORE_TRIES, timeout=TIMEOUT_S)
        suffix = f"once-{uuid4().hex[:8]}"
        job = case.create(client=retrying, suffix=suffix, extra_headers={"x-break": how})
        found = case.client.fine_tuning.jobs.list(limit=100)
        assert [one.id for one in found if _suffix(one) == suffix] == [job.id]

    return check


def idempotency_key(case: Case) -> None:
    named = {"extra_headers": {"Idempotency-Key": uuid4().hex}}
    first = case.create(suffix="first", **named)
    assert case.create(suffix="first", **named).id == first.id
    error = refused(openai.BadRequestError, lambda: case.create(suffix="second", **named))
    assert error.code == "idempotency_key_reused"


def bad_request(case: Case) -> None:
    error = refused(openai.BadRequestError, lambda: case.create(seed=-1))
    _check(error, 400, param="seed")


def unauthorized(case: Case) -> None:
    stranger = case.open("sk-castalia-unknown")
    error = refused(openai.AuthenticationError, stranger.files.list)
    _check(error, 401, code="invalid_api_key")


def not_found(case: Case) -> None:
    """What belongs to another project is not there, and a model that nobody has is named."""
    trained = case.trained
    error = refused(openai.NotFoundError, lambda: case.client.fine_tuning.jobs.retrieve(trained))
    _check(error, 404, code="not_found")
    jobs = case.client.fine_tuning.jobs
    error = refused(
        openai.NotFoundError, lambda: jobs.create(model="no/model", training_file=case.file("chat"))
    )
    _check(error, 404, code="model_not_found", param="model")


def server_failure(case: Case) -> None:
    broken = case.told["broken"]
    jobs = case.open(broken["key"]).fine_tuning.jobs
    error = refused(openai.InternalServerError, lambda: jobs.retrieve(broken["job"]))
    _check(error, 500, code="internal_error")
    assert error.body["message"] == "the server failed to answer"


def forbidden(case: Case) -> None:
    reader = case.open(case.told["reader"])
    assert reader.files.list().data == []
    error = refused(openai.PermissionDeniedError, lambda: _small_file(reader))
    _check(error, 403, code="insufficient_scope")
    assert "submit" in error.body["message"]


def over_quota(case: Case) -> None:
    error = refused(openai.RateLimitError, lambda: _small_file(case.open(case.told["full"])))
    _check(error, 429, code="quota_exceeded", param="stored_bytes")


def conflict(case: Case) -> None:
    """By a route that the test has added, which raises the API's own error."""
    error = refused(openai.ConflictError, lambda: case.client.get("/refusals/409", cast_to=object))
    _check(error, 409, code="probe", param="field")
    assert error.body["hint"] == "a remedy"


def conflicts_are_final(case: Case) -> None:
    """The client would try a bare 409 again."""
    name = uuid4().hex
    retrying = case.open(max_retries=2)
    path = f"/refusals/409?name={name}"
    refused(openai.ConflictError, lambda: retrying.get(path, cast_to=object))
    assert retrying.get(f"/refusals/tries/{name}", cast_to=object) == 1


def request_ids(case: Case) -> None:
    file = _small_file(case.client)
    ids = {file._request_id, case.client.files.retrieve(file.id)._request_id}
    assert len(ids) == 2
    assert all(id.startswith("req_") for id in ids)


def _check(error: Any, status: int, *, code: str | None = None, param: str | None = None) -> None:
    assert error.status_code == status
    assert {"message", "type", "param", "code"} <= set(error.body)
    assert error.body["message"]
    assert error.type == error.body["type"]
    assert code is None or error.code == code, error.code
    assert param is None or error.param == param, error.param
    assert error.request_id.startswith("req_")


def _small_file(client: openai.OpenAI) -> Any:
    return client.files.create(file=("a.txt", b"a"), purpose="user_data")


def _suffix(job: Any) -> str | None:
    found: str | None = job.model_dump().get("user_provided_suffix")
    return found


ITEMS = {
    "duplicates.after_500": _made_once("500"),
    "duplicates.after_time_out": _made_once("hang"),
    "duplicates.after_cut": _made_once("cut"),
    "duplicates.idempotency_key": idempotency_key,
    "errors.400": bad_request,
    "errors.401": unauthorized,
    "errors.403": forbidden,
    "errors.404": not_found,
    "errors.409": conflict,
    "errors.409_is_final": conflicts_are_final,
    "errors.429": over_quota,
    "errors.500": server_failure,
    "request_id": request_ids,
}
