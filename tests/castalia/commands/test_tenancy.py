"""`castalia orgs | projects | audit`, and the scopes and rotation of keys: who may what, and who did."""

import json
import re

import pytest

from core.store.audit import Write, add_write
from core.store.keys import authenticate
from core.store.projects import find_project
from core.store.quotas import Quotas, quotas_of


@pytest.fixture
def run(castalia, database_url):
    def do(*words: object, **variables: str):
        return castalia(*words, DATABASE_URL=database_url, BROKER_URL="redis://h/0", **variables)

    return do


@pytest.fixture
def principal(database):
    def of(secret: str):
        with database.begin() as session:
            return authenticate(session, secret.strip())

    return of


def test_a_project_of_a_new_organisation_owns_the_keys_that_are_made_for_it(run, principal):
    org_id = run("orgs", "create", "acme").out.strip()
    project_id = run("projects", "create", "law", "--org", "acme").out.strip()
    found = principal(run("keys", "create", "--project", "law").out)
    assert (found.organization_id, found.project_id) == (org_id, project_id)
    assert re.search(rf"{org_id}  acme ", run("orgs", "list").out)
    assert re.search(rf"{project_id}  law +acme ", run("projects", "list").out)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("orgs", "create", "default"), 1, "an organisation 'default' already"),
        (("projects", "create", "p", "--org", "none"), 1, "`castalia orgs create none`"),
        (("projects", "quota", "none"), 1, "see `castalia projects list`"),
        (("audit", "--project", "none"), 1, "see `castalia projects list`"),
        (("keys", "create", "--scopes", "read,write"), 2, "'write' is no scope: use: read"),
        (("keys", "rotate", "key_none"), 1, "see `castalia keys list`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_line_with_a_remedy(run, words, code, said):
    answer = run(*words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (code, "", 1)
    assert said in answer.err


def test_a_project_is_made_once(run):
    run("projects", "create", "law")
    assert "a project 'law' already" in run("projects", "create", "law").err


def test_a_key_has_the_scopes_that_it_is_given_and_else_may_submit(run, principal):
    reader = principal(run("keys", "create", "--scopes", "read").out)
    both = principal(run("keys", "create", "--scopes", "admin, read").out)
    usual = principal(run("keys", "create").out)
    assert [reader.scopes, both.scopes, usual.scopes] == [("read",), ("admin", "read"), ("submit",)]
    listed = run("keys", "list").out.splitlines()
    assert [line.split()[-1] for line in listed] == ["read", "admin,read", "submit"]


@pytest.mark.parametrize(("grace", "former_opens"), [(None, True), ("1", True), ("0", False)])
def test_a_key_that_is_rotated_is_opened_by_its_new_secret(run, principal, grace, former_opens):
    former = run("keys", "create").out
    key_id = principal(former).key_id
    rotated = run("keys", "rotate", key_id, *([] if grace is None else ["--grace", grace]))
    assert (rotated.code, rotated.out.count("\n")) == (0, 1)
    assert f"for {grace or 24} h more" in rotated.err
    assert principal(rotated.out).key_id == key_id
    assert (principal(former) is not None) is former_opens


def test_a_revoked_key_is_not_rotated(run, principal):
    key_id = principal(run("keys", "create").out).key_id
    run("keys", "revoke", key_id)
    said = run("keys", "rotate", key_id)
    assert (said.code, said.out) == (1, "")
    assert "is revoked: make another" in said.err


def test_quotas_are_set_lifted_and_given_back_to_the_settings(run, database):
    run("projects", "create", "law")

    def quotas() -> Quotas:
        with database.begin() as session:
            project = find_project(session, "law").id
            return quotas_of(session, [project], Quotas(queued_jobs=7))[project]

    shown = run("projects", "quota", "law", "--running", "2", "--stored-bytes", "0").out
    assert [line.split() for line in shown.splitlines()] == [
        ["running_jobs", "0", "of", "2"],
        ["queued_jobs", "0", "of", "none"],
        ["stored_bytes", "0", "of", "0"],
        ["device_seconds", "0", "of", "none"],
    ]
    assert quotas() == Quotas(running_jobs=2, queued_jobs=7, stored_bytes=0)
    run("projects", "quota", "law", "--running", "none", "--queued", "none")
    assert quotas() == Quotas(stored_bytes=0)
    shown = run("projects", "quota", "law", "--queued", "default", QUOTA_QUEUED_JOBS="7").out
    assert quotas() == Quotas(queued_jobs=7, stored_bytes=0)
    assert shown.splitlines()[1].endswith(" of 7")


@pytest.mark.parametrize("amount", ["-1", "x", "1.5", "1e3", "", "²", str(2**63)])
def test_an_amount_that_is_none_is_refused(run, amount):
    run("projects", "create", "law")
    said = run("projects", "quota", "law", f"--queued={amount}")
    assert (said.code, said.out) == (2, "")
    assert "give a number from 0 on, 'none' or 'default'" in said.err


@pytest.fixture
def written(run, database):
    """Two writes: by the project `law`, and by nobody who was known."""
    project_id = run("projects", "create", "law").out.strip()
    mine = ("org", project_id, "key_a", "req_1", "10.0.0.1", "POST", "/v1/files", "file-a", 200)
    other = (None, None, None, "req_2", None, "DELETE", "/v1/files/{file_id}", "file-b", 401)
    for values in (mine, other):
        with database.begin() as session:
            add_write(session, Write(*values))
    return project_id


def test_the_log_of_writes_is_shown_oldest_first(run, written):
    first, second = run("audit").out.splitlines()
    assert f"  {written}  key_a  10.0.0.1  200  POST /v1/files  file-a  req_1" in first
    assert "Z  -  -  -  401  DELETE /v1/files/{file_id}  file-b  req_2" in second


def test_the_log_of_writes_is_cut_by_project_and_by_time(run, written):
    (line,) = run("audit", "--project", "law", "--json").out.splitlines()
    shown = json.loads(line)
    assert (shown["project_id"], shown["object_id"], shown["status"]) == (written, "file-a", 200)
    assert shown["at"].endswith("+00:00")
    assert len(run("audit", "--since", "2000-01-01").out.splitlines()) == 2
    assert run("audit", "--since", "2999-01-01T00:00:00").out == ""
