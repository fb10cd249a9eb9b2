"""The served OpenAPI is the one in the repository, and tells every error that an operation can give."""

import json
from pathlib import Path

import pytest

from api.description import ERRORS, METHODS

SNAPSHOT = Path(__file__).parents[2] / "docs" / "openapi.json"
OPEN = {"/healthz", "/readyz", "/metrics", "/v1/trainer/schema"}


@pytest.fixture(scope="module")
def document(app):
    return app.openapi()


@pytest.fixture(scope="module")
def operations(document):
    paths = document["paths"].items()
    return [(path, m, ops[m]) for path, ops in paths for m in METHODS if m in ops]


def test_it_is_the_one_in_the_repository(client):
    served = client.get("/openapi.json").json()
    assert served == json.loads(SNAPSHOT.read_text()), "run `make docs` and look at the diff"


def test_an_operation_has_a_name_of_its_own(operations):
    names = [operation["operationId"] for _, _, operation in operations]
    assert len(names) == len(set(names))


def test_what_needs_a_key_tells_what_a_key_can_be_refused_for(operations):
    for path, _, operation in operations:
        told = {"401", "403", "429"} <= operation["responses"].keys()
        assert told is ("security" in operation) is (path not in OPEN), path


def test_what_takes_a_body_tells_that_it_can_be_too_large_or_too_slow(operations):
    takers = [operation for _, _, operation in operations if "requestBody" in operation]
    assert len(takers) > 5
    assert all({"400", "408", "413"} <= operation["responses"].keys() for operation in takers)


def test_what_names_a_thing_tells_that_it_may_not_be_there(operations):
    for path, _, operation in operations:
        assert "{" not in path or "404" in operation["responses"]


def test_nothing_is_told_that_is_never_given(operations, document):
    assert not [path for path, _, operation in operations if "422" in operation["responses"]]
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_error_is_the_envelope(operations, document):
    for path, _, operation in operations:
        for status, answer in operation["responses"].items():
            if int(status) in ERRORS and path not in OPEN:
                name = answer["$ref"].rpartition("/")[2]
                schema = document["components"]["responses"][name]["content"]["application/json"]
                assert schema["schema"]["$ref"].endswith("/ErrorView")


def test_every_success_has_a_form(operations):
    for path, method, operation in operations:
        (success,) = [
            answer for status, answer in operation["responses"].items() if status == "200"
        ]
        forms = success["content"].values()
        assert all(form["schema"] for form in forms), (method, path)
