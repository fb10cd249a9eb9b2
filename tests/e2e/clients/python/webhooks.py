"""Webhooks: endpoints managed, and what is really sent taken by the client's own check, also in rotation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from case import Case, refused
from openai import NotFoundError

SUCCEEDED, FAILED = "fine_tuning.job.succeeded", "fine_tuning.job.failed"


def endpoints(case: Case) -> None:
    webhooks = case.client.webhooks
    asked = {"url": "http://127.0.0.1:9/", "event_types": [SUCCEEDED]}
    made = [webhooks.create(name=f"n{number}", **asked) for number in range(3)]
    assert all(one.signing_secret.startswith("whsec_") for one in made)
    assert [one.id for one in webhooks.list(limit=1)] == [one.id for one in made[::-1]]
    assert webhooks.update(made[0].id, event_types=[FAILED]).event_types == [FAILED]
    assert webhooks.retrieve(made[0].id).name == "n0"
    rotated = webhooks.rotate_secret(made[0].id, keep_old_secret_active_for_24_hours=True)
    assert rotated.signing_secret != made[0].signing_secret
    assert {SUCCEEDED, FAILED} <= set(webhooks.event_types.list().data)
    for one in made:
        assert webhooks.delete(one.id).deleted
    refused(NotFoundError, lambda: webhooks.retrieve(made[0].id))


def unwrap(case: Case) -> None:
    """By plain requests, since older versions can check a webhook and not manage one."""
    with _receiver() as (url, received):
        made = _post(case, "", {"name": "n", "url": url, "event_types": [SUCCEEDED]})
        path = f"/{made['id']}"
        old = made["signing_secret"]
        new = _post(case, f"{path}/rotate_secret", {"keep_old_secret_active_for_24_hours": True})
        told = _post(case, f"{path}/test", {"event_type": SUCCEEDED})
        assert (told["success"], told["status_code"]) == (True, 200)
        ((headers, body),) = received
    for secret in (old, new["signing_secret"]):
        event = case.client.webhooks.unwrap(body, headers, secret=secret)
        assert (event.type, event.object) == (SUCCEEDED, "event")
        assert event.data.id.startswith("ftjob-")


def _post(case: Case, path: str, body: dict[str, Any]) -> Any:
    return case.client.post(f"/webhook_endpoints{path}", cast_to=object, body=body)


@contextmanager
def _receiver() -> Iterator[tuple[str, list[tuple[dict[str, str], str]]]]:
    received: list[tuple[dict[str, str], str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            received.append((dict(self.headers.items()), body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", received
        server.shutdown()
        thread.join()


ITEMS = {"webhooks.endpoints": endpoints, "webhooks.unwrap": unwrap}
