"""Every route declares a scope, a key without it is refused, and a key speaks for its own project alone."""

from collections.abc import Iterator

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts
from openai import AuthenticationError, OpenAI, PermissionDeniedError

from api.auth import Needs
from core.store.jobs import list_jobs

WITHOUT_KEY = {
    "/docs",
    "/docs/oauth2-redirect",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/redoc",
    "/v1/trainer/schema",
}
READS = {"GET", "HEAD"}
ADMINISTRATION = ("/v1/webhook_endpoints", "/permissions")


def scopes_of(dependant: Dependant) -> Iterator[str]:
    if isinstance(dependant.call, Needs):
        yield dependant.call.scope
    for inner in dependant.dependencies:
        yield from scopes_of(inner)


def test_every_route_declares_the_scope_that_its_method_and_its_noun_ask_for(app):
    walked = 0
    for route in iter_route_contexts(app.routes):
        if route.path in WITHOUT_KEY:
            continue
        declared = list(scopes_of(route.original_route.dependant))
        reads = route.methods <= READS
        least = "read" if reads else "submit"
        if any(noun in route.path for noun in ADMINISTRATION):
            assert declared in ([least], ["admin"]), (route.path, declared)
            assert reads or declared == ["admin"], route.path
        else:
            assert declared == [least], (route.path, route.methods, declared)
        walked += 1
    assert walked > 20


def test_a_key_that_may_read_reads_and_changes_nothing(
    app, open_client, project, database, body, openai
):
    reader = open_client(app, project, "read")
    job_id = openai.fine_tuning.jobs.create(**body).id
    assert reader.get(f"/v1/fine_tuning/jobs/{job_id}").status_code == 200
    for path in ("", f"/{job_id}/cancel", f"/{job_id}/pause"):
        answer = reader.post(f"/v1/fine_tuning/jobs{path}", json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (403, "insufficient_scope")
        assert error["type"] == "permission_error"
        assert "'submit'; the key has: read" in error["message"]
        assert "--scopes submit" in error["hint"]
        assert 'scope="submit"' in answer.headers["www-authenticate"]
    assert reader.delete("/v1/files/file-x").status_code == 403
    with database.begin() as session:
        (job,) = list_jobs(session, project, tags=None, after=None, limit=9).rows
        assert (job.id, job.status) == (job_id, "queued")


def test_a_key_that_may_submit_does_so(app, open_client, project, body):
    submitter = open_client(app, project, "submit")
    assert submitter.post("/v1/fine_tuning/jobs", json=body).status_code == 200


def test_the_stock_client_reads_what_is_missing(app, open_client, project, body):
    reader = open_client(app, project, "read")
    secret = reader.headers["authorization"].removeprefix("Bearer ")
    client = OpenAI(api_key=secret, base_url="http://x/v1", http_client=reader, max_retries=0)
    with pytest.raises(PermissionDeniedError) as refused:
        client.fine_tuning.jobs.create(**body)
    assert refused.value.code == "insufficient_scope"


@pytest.mark.parametrize("noun", ["organization", "project"])
def test_a_request_for_somebody_else_than_the_keys_owner_is_refused(openai, noun):
    with pytest.raises(AuthenticationError) as refused:
        openai.with_options(**{noun: "another"}).models.list()
    assert (refused.value.code, refused.value.param) == (
        f"mismatched_{noun}",
        f"OpenAI-{noun.capitalize()}",
    )


def test_a_request_for_the_keys_owner_is_answered_and_says_for_whom(openai, client, project):
    organization = client.get("/v1/models").headers["openai-organization"]
    assert organization == "org-castalia"
    assert openai.with_options(organization=organization, project=project).models.list().data


def test_whose_key_it_is_is_told_to_nobody_without_a_key(client):
    del client.headers["authorization"]
    assert "openai-organization" not in client.get("/v1/models").headers
