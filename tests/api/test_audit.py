"""Every write leaves a row that says who asked, for what, and how it ended; no reading, no secret does."""

import pytest
from sqlalchemy import select, text

from core.store.audit import LONGEST
from core.store.keys import new_secret
from core.store.tables import AuditRow, KeyRow

JOBS = "/v1/fine_tuning/jobs"


@pytest.fixture
def kept(database):
    """The row of an answer, by its request id; None if there is none."""

    def find(answer) -> AuditRow | None:
        query = select(AuditRow).where(AuditRow.request_id == answer.headers["x-request-id"])
        with database.begin() as session:
            return session.scalar(query)

    return find


def test_what_was_made_is_kept_with_its_id_and_whoever_made_it(
    client, kept, body, project, database
):
    answer = client.post(JOBS, json=body)
    row = kept(answer)
    with database.begin() as session:
        key_id = session.scalar(select(KeyRow.id).where(KeyRow.project_id == project))
    assert (row.organization_id, row.project_id, row.key_id) == ("org-castalia", project, key_id)
    assert (row.method, row.route, row.status) == ("POST", JOBS, 200)
    assert (row.object_id, row.client) == (answer.json()["id"], "testclient")


def test_what_was_changed_is_kept_by_the_template_of_its_route(client, kept, body):
    job_id = client.post(JOBS, json=body).json()["id"]
    row = kept(client.post(f"{JOBS}/{job_id}/cancel"))
    assert (row.route, row.object_id) == (f"{JOBS}/{{job_id}}/cancel", job_id)
    row = kept(client.delete("/v1/files/file-none"))
    assert (row.method, row.route) == ("DELETE", "/v1/files/{file_id}")
    assert (row.object_id, row.status) == ("file-none", 404)


def test_a_refused_request_is_kept_without_a_project_if_nobody_is_known(client, kept):
    client.headers["authorization"] = f"Bearer {new_secret()}"
    row = kept(client.post(JOBS, json={}))
    assert (row.status, row.organization_id, row.project_id, row.key_id) == (401, None, None, None)


def test_a_request_beyond_a_keys_scopes_is_kept_with_its_key(app, open_client, project, kept):
    row = kept(open_client(app, project, "read").delete("/v1/files/file-x"))
    assert (row.status, row.project_id, row.object_id) == (403, project, "file-x")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/v1/nothing", 404), ("PUT", "/v1/files", 405), ("BREW", "/v1/files", 405)],
)
def test_what_no_route_takes_is_kept_too(client, kept, method, path, status):
    row = kept(client.request(method, path))
    assert (row.method, row.status) == (method, status)


def test_a_body_that_is_too_large_is_kept_as_refused(client, kept):
    row = kept(client.post(JOBS, content=b"x" * 200_000))
    assert (row.status, row.object_id) == (413, None)


@pytest.mark.parametrize("path", ["/v1/files", "/v1/models", "/healthz", "/v1/files/file-none"])
def test_a_reading_is_not_kept(client, kept, path):
    assert kept(client.get(path)) is None


def test_neither_bodies_nor_secrets_are_kept(client, database, body, kept):
    marked = {**body, "metadata": {"note": "a-word-of-the-body"}}
    answer = client.post(JOBS, json=marked, headers={"idempotency-key": "a-word-of-a-header"})
    assert kept(answer) is not None
    with database.begin() as session:
        rows = session.scalars(text("select row_to_json(audit)::text from audit")).all()
    secret = client.headers["authorization"].removeprefix("Bearer ")
    told = "\n".join(rows)
    assert not any(word in told for word in ("a-word-of", secret, secret[-20:]))


def test_a_long_or_strange_id_is_cut_and_harms_nothing(client, kept):
    row = kept(client.delete(f"/v1/files/{'x' * 3000}"))
    assert row.object_id == "x" * LONGEST
    assert kept(client.delete("/v1/files/%00%ff")).status == 404


def test_a_key_in_the_place_of_an_id_is_not_kept(client, kept):
    assert kept(client.delete(f"/v1/files/{new_secret()}")).object_id == "sk-castalia-…"


def test_a_fault_of_ours_is_kept(settings, open_client, project, kept):
    from api.app import create_app

    app = create_app(settings)

    @app.post("/boom")
    def boom() -> None:
        raise RuntimeError

    row = kept(open_client(app, project).post("/boom"))
    assert (row.route, row.status) == ("/boom", 500)
    app.state.service.database.close()
