"""Project B reads, lists, infers and changes nothing of project A, through any route of the application.

Every route is walked as B with A's ids in its path, its query and its body, and asked the same with ids that
never were: the two answers must be equal but for the id. A route that brings a new kind of id, parameter
or body fails here until it is told below how to be walked.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import quote, unquote

import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import text

from core.store.attempts import succeed_job
from core.store.checkpoints import StoredFile, add_checkpoint
from core.store.ids import new_id
from core.store.jobs import get_job
from core.store.keys import project_named
from core.store.tables import Row
from core.store.wishes import pause_job

VOLATILE = {"date", "x-request-id", "openai-processing-ms"}
WITHOUT_IDS = {"limit", "order", "purpose", "stream"}
GRADER = {"type": "string_check", "name": "g", "input": "a", "reference": "a", "operation": "eq"}
UPLOAD = {"filename": "f", "purpose": "evals", "bytes": 9, "mime_type": "text/plain"}
SHARES = "/v1/fine_tuning/checkpoints/{checkpoint}/permissions"
HOOK = {"name": "hook", "url": "http://127.0.0.1:9/"}  # where nobody listens
JOBS, UPLOADS, HOOKS = "/v1/fine_tuning/jobs", "/v1/uploads", "/v1/webhook_endpoints"


@dataclass
class Ids:
    """Of each kind of id some; ``own``: B's, by path parameter."""

    some: dict[str, list[str]]
    own: dict[str, str]

    def bodies(self, method: str, path: str) -> list[dict[str, Any]] | None:
        """How a route is asked that takes a body: once for each place that an id can stand in."""
        file, own = self.some["file_id"][0], self.own["file_id"]
        training = [
            {"model": "tiny", "training_file": file},
            {"model": self.some["model"][0], "training_file": own},
            {"model": self.some["model"][1], "training_file": own},
        ]
        validated = {"model": "tiny", "training_file": own, "validation_file": file}
        named = {"idempotency-key": self.some["idempotency_key"][0]}
        asked = {
            ("POST", "/v1/files"): [{"files": {"file": b"x"}, "data": {"purpose": "evals"}}],
            ("POST", UPLOADS): [{"json": UPLOAD}],
            ("POST", f"{UPLOADS}/{{upload_id}}/parts"): [{"files": {"data": b"x"}}],
            ("POST", f"{UPLOADS}/{{upload_id}}/complete"): [
                {"json": {"part_ids": [part]}} for part in self.some["part_id"]
            ],
            ("POST", JOBS): [{"json": b, "headers": named} for b in (*training, validated)],
            ("POST", "/v1/trainer/plan"): [{"json": b} for b in (*training, validated)],
            ("POST", "/v1/trainer/preview"): [{"json": b} for b in training],
            ("POST", "/v1/fine_tuning/alpha/graders/validate"): [{"json": {"grader": GRADER}}],
            ("POST", "/v1/fine_tuning/alpha/graders/run"): [
                {"json": {"grader": GRADER, "model_sample": "a"}}
            ],
            ("POST", "/v1/chat/completions"): [
                {"json": {"model": name, "messages": [{"role": "user", "content": "?"}]}}
                for name in self.some["model"]
            ],
            ("POST", SHARES): [{"json": {"project_ids": self.some["project_id"]}}],
            ("POST", HOOKS): [{"json": HOOK}],
            ("POST", f"{HOOKS}/{{endpoint_id}}"): [{"json": {"name": "other"}}],
            ("POST", f"{HOOKS}/{{endpoint_id}}/rotate_secret"): [{"json": {}}],
            ("POST", f"{HOOKS}/{{endpoint_id}}/test"): [
                {"json": {"event_type": "fine_tuning.job.succeeded"}}
            ],
        }
        return asked.get((method, path))


@dataclass
class Walk:
    """What B asks, with one set of ids; ``untaught``: where it does not know how."""

    app: Any
    ids: Ids
    untaught: list[str] = field(default_factory=list)

    def requests(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Method, path and the rest of every request, in one order whatever the ids are."""
        described = self.app.openapi()["paths"]
        found = []
        for route in iter_route_contexts(self.app.routes):
            for method in sorted(route.methods):
                operations = described.get(route.path_format, {})
                operation = operations.get(method.lower()) or operations.get("get", {})
                found += self._of_route(method, route.path_format, operation)
        return found

    def _of_route(self, method: str, path: str, operation: dict[str, Any]):
        bodies = self.ids.bodies(method, path) or [{}]
        if "requestBody" in operation and bodies == [{}]:
            self.untaught.append(f"the body of {method} {path}")
        queries: list[dict[str, str]] = [{}]
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and parameter["name"] not in WITHOUT_IDS:
                queries += [{parameter["name"]: id} for id in self._some(parameter["name"], path)]
        foreign = self._paths(path, self.ids.some)
        own = self._paths(path, {name: [id] for name, id in self.ids.own.items()})
        # B's own things are asked for only where an id of A's comes along.
        further = [*product(own, queries[1:], [{}])]
        if "{" in path and "json" in bodies[0]:
            further += product(own, [{}], bodies)
        for filled, query, body in [*product(foreign, queries, bodies), *further]:
            yield method, filled, {"params": query, **body}

    def _paths(self, path: str, ids: dict[str, list[str]]) -> list[str]:
        path = path.replace(":path}", "}")
        names = re.findall(r"{(\w+)}", path)
        self.untaught += [f"{{{n}}} in {path}" for n in names if n not in self.ids.some]
        choices = product(*(ids.get(name, []) for name in names))
        return [path.format(**dict(zip(names, map(quote, c), strict=True))) for c in choices]

    def _some(self, name: str, path: str) -> list[str]:
        if name not in self.ids.some:
            self.untaught.append(f"the parameter {name} of {path}")
        return self.ids.some.get(name, [])


@pytest.fixture
def theirs(client, database, blobs, run_job, body, project) -> dict[str, list[str]]:
    """Everything that A has: some ids of each kind."""
    key = {"idempotency-key": new_id("key-")}
    hook = client.post(HOOKS, json=HOOK).json()["id"]
    queued = client.post(JOBS, json=body, headers=key).json()["id"]
    done, running, paused = run_job(), run_job(), client.post(JOBS, json=body).json()["id"]
    with database.begin() as session:
        for lease in (done, running):
            file = StoredFile("model.safetensors", "weights", blobs.write([b"w"]))
            add_checkpoint(session, lease, step=3, metrics={}, files=[file])
        succeed_job(session, done, trained_tokens=1)
        pause_job(session, project, paused)
        model = get_job(session, project, done.job_id).fine_tuned_model
        third = project_named(session, new_id("project-")).id
    shared = client.post(SHARES.format(checkpoint=model), json={"project_ids": [third]})
    pending, complete = (client.post(UPLOADS, json=UPLOAD).json()["id"] for _ in range(2))
    parts = []
    for upload in (pending, complete):
        part = client.post(f"{UPLOADS}/{upload}/parts", files={"data": b"x" * 9})
        parts.append(part.json()["id"])
    client.post(f"{UPLOADS}/{complete}/complete", json={"part_ids": parts[1:]})
    files = [file["id"] for file in client.get("/v1/files").json()["data"]]
    events = client.get(f"{JOBS}/{done.job_id}/events").json()["data"]
    checkpoints = client.get(f"{JOBS}/{done.job_id}/checkpoints").json()["data"]
    jobs = [queued, done.job_id, running.job_id, paused]
    return {
        "file_id": [body["training_file"], *files],
        "job_id": jobs,
        "upload_id": [pending, complete],
        "part_id": parts,
        "model": [model, f"{model}:ckpt-step-3"],
        "endpoint_id": [hook],
        "checkpoint": [model, f"{model}:ckpt-step-3"],
        "permission_id": [shared.json()["data"][0]["id"]],
        "project_id": [third],
        "after": [files[0], jobs[0], events[0]["id"], checkpoints[0]["id"], hook],
        "idempotency_key": list(key.values()),
    }


@pytest.fixture
def own(stranger) -> dict[str, str]:
    """What B has."""
    files = {"file": b'{"text": "a"}\n'}
    file = stranger.post("/v1/files", files=files, data={"purpose": "fine-tune"}).json()["id"]
    upload = stranger.post(UPLOADS, json=UPLOAD).json()["id"]
    job = stranger.post(JOBS, json={"model": "tiny", "training_file": file}).json()["id"]
    hook = stranger.post(HOOKS, json=HOOK).json()["id"]
    return {
        "file_id": file, "upload_id": upload, "job_id": job, "model": "tiny", "endpoint_id": hook,
    }  # fmt: skip


def ghost(id: str) -> str:
    """An id of the same form that never was."""
    name = re.fullmatch(r"(ft:.*:)(\w{8})(:ckpt-step-\d+)?", id)
    if name:
        return f"{name[1]}{new_id('')[:8]}{name[3] or ''}"
    return new_id(re.match(r"\w+?[-_]", id)[0])


def shape_of(answer, ids: dict[str, list[str]]) -> tuple[int, dict[str, str], str]:
    """An answer without what differs from one to the next, and without the ids that were asked for."""
    said = answer.text
    for id in sorted({id for some in ids.values() for id in some}, key=len, reverse=True):
        said = said.replace(json.dumps(id)[1:-1], "ID").replace(quote(id), "ID")
    headers = {name: value for name, value in answer.headers.items() if name not in VOLATILE}
    return answer.status_code, headers, said


def rows_of(database, words: list[str]) -> set[str]:
    """Every row of the database that names one of ``words``, but for the log of who asked for what."""
    found: set[str] = set()
    with database.begin() as session:
        for table in Row.metadata.sorted_tables:
            if table.name not in ("audit", "blob_pieces"):
                rows = session.scalars(text(f"select row_to_json(t)::text from {table.name} t"))
                found |= {row for row in rows if any(word in row for word in words)}
    return found


def test_another_projects_ids_are_answered_as_ids_that_never_were(
    app, database, project, theirs, own, client, stranger
):
    ghosts = {kind: [ghost(id) for id in ids] for kind, ids in theirs.items()}
    everything = [project, *{id for ids in theirs.values() for id in ids}]
    before = rows_of(database, everything)
    real, unreal = Walk(app, Ids(theirs, own)), Walk(app, Ids(ghosts, own))
    asked = list(zip(real.requests(), unreal.requests(), strict=True))
    assert not real.untaught, f"tell this test how to walk: {sorted(set(real.untaught))}"
    wrong, compared = [], 0
    for mine, other in asked:
        answer = stranger.request(mine[0], mine[1], **mine[2])
        sent = f"{unquote(mine[1])} {json.dumps(mine[2], default=str)}"
        leaked = [id for id in everything if id in answer.text and id not in sent]
        if leaked:
            wrong.append((mine, "tells of", leaked))
        if mine != other:
            compared += 1
            told, expected = (
                shape_of(answer, theirs),
                shape_of(stranger.request(other[0], other[1], **other[2]), ghosts),
            )
            if told != expected or answer.status_code < 400:
                wrong.append((mine, told, expected))
    assert not wrong, wrong[:5]
    assert compared > 60
    assert rows_of(database, everything) == before
    for file_id in theirs["file_id"]:
        assert client.get(f"/v1/files/{file_id}/content").status_code == 200
