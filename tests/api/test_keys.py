"""Without a valid key nothing under /v1 answers, and nothing tells why a key is not valid."""

import pytest
from openai import AuthenticationError

from core.store.keys import new_secret, revoke_key
from core.store.tables import KeyRow

ROUTES = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files/file-x"),
    ("DELETE", "/v1/files/file-x"),
    ("GET", "/v1/files/file-x/content"),
    ("HEAD", "/v1/files/file-x/content"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("GET", "/v1/fine_tuning/jobs"),
    ("GET", "/v1/fine_tuning/jobs/ftjob-x"),
    ("POST", "/v1/fine_tuning/jobs/ftjob-x/cancel"),
    ("POST", "/v1/fine_tuning/jobs/ftjob-x/pause"),
    ("POST", "/v1/fine_tuning/jobs/ftjob-x/resume"),
    ("GET", "/v1/fine_tuning/jobs/ftjob-x/events"),
    ("GET", "/v1/fine_tuning/jobs/ftjob-x/checkpoints"),
    ("POST", "/v1/fine_tuning/alpha/graders/validate"),
    ("POST", "/v1/fine_tuning/alpha/graders/run"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/tiny"),
    ("DELETE", "/v1/models/tiny"),
    ("POST", "/v1/fine_tuning/checkpoints/ft:x/permissions"),
    ("GET", "/v1/fine_tuning/checkpoints/ft:x/permissions"),
    ("DELETE", "/v1/fine_tuning/checkpoints/ft:x/permissions/cp_x"),
    ("POST", "/v1/trainer/plan"),
    ("POST", "/v1/trainer/preview"),
    ("POST", "/v1/uploads"),
    ("POST", "/v1/uploads/upload-x/parts"),
    ("POST", "/v1/uploads/upload-x/complete"),
    ("POST", "/v1/uploads/upload-x/cancel"),
    ("GET", "/v1/webhook_event_types"),
    ("POST", "/v1/webhook_endpoints"),
    ("GET", "/v1/webhook_endpoints"),
    ("GET", "/v1/webhook_endpoints/we_x"),
    ("POST", "/v1/webhook_endpoints/we_x"),
    ("DELETE", "/v1/webhook_endpoints/we_x"),
    ("POST", "/v1/webhook_endpoints/we_x/rotate_secret"),
    ("POST", "/v1/webhook_endpoints/we_x/test"),
    ("GET", "/v1/webhook_endpoints/we_x/deliveries"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_asks_for_a_key(client, method, path):
    del client.headers["authorization"]
    answer = client.request(method, path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_these_are_all_routes_but_the_open_ones(app):
    open_ = {"/v1/trainer/schema", "/healthz", "/readyz", "/metrics"}
    listed = {path.replace("file-x", "{file_id}") for _, path in ROUTES}
    listed = {path.replace("ftjob-x", "{job_id}").replace("tiny/", "") for path in listed}
    listed = {path.replace("models/tiny", "models/{model}") for path in listed}
    listed = {path.replace("upload-x", "{upload_id}") for path in listed}
    listed = {path.replace("we_x", "{endpoint_id}") for path in listed}
    listed = {path.replace("ft:x", "{checkpoint}") for path in listed}
    listed = {path.replace("cp_x", "{permission_id}") for path in listed}
    assert set(app.openapi()["paths"]) == listed | open_


@pytest.mark.parametrize(
    "header",
    [
        "Bearer sk-castalia-wrong",
        "Bearer ",
        "Bearer",
        "Basic dTpw",
        "sk-castalia-x",
        "",
        "Bearer \xff\xfe",
    ],
)
def test_a_wrong_key_is_refused(client, header):
    answer = client.get("/v1/models", headers={"authorization": header.encode("latin-1")})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (401, "invalid_api_key")
    assert error["type"] == "authentication_error"
    assert "castalia keys create" in error["hint"]


def test_a_revoked_key_is_refused_like_an_unknown_one(openai, client, database, project):
    openai.models.list()
    with database.begin() as session:
        key = session.query(KeyRow).where(KeyRow.project_id == project).one()
        revoke_key(session, key.id)
    with pytest.raises(AuthenticationError) as revoked:
        openai.models.list()
    client.headers["authorization"] = f"Bearer {new_secret()}"
    assert client.get("/v1/models").json()["error"] == revoked.value.body


def test_the_scheme_is_read_in_any_case(client):
    client.headers["authorization"] = client.headers["authorization"].replace("Bearer", "bearer")
    assert client.get("/v1/models").status_code == 200


def test_the_schema_of_the_trainer_is_open_to_everybody(client):
    del client.headers["authorization"]
    schema = client.get("/v1/trainer/schema").json()
    assert schema["properties"]["context_length"]["default"] is None
    assert schema["$defs"]["ApolloSpec"]["properties"]["rank"]["default"] == 256
