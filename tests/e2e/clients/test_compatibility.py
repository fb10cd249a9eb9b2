"""Several versions of the stock client, in two languages, go through one list of what must be the same.

Each item of each client is a test of its own; what a client does for it stands in python/ and javascript/.
A version that lacks a call is listed here, and the scenario fails if the call is there after all.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GRADERS = "fine_tuning.alpha.graders"
NOT_MANAGED = {"webhooks.endpoints": "webhooks.create"}
OF_1_60 = {
    "files.expires_after": "files.create(expires_after)",
    "jobs.pause": "fine_tuning.jobs.pause",
    "jobs.resume": "fine_tuning.jobs.resume",
    "graders.validate": GRADERS,
    "graders.run": GRADERS,
    "graders.error_flags": GRADERS,
    "graders.score_model": GRADERS,
    "webhooks.endpoints": "webhooks",
    "webhooks.unwrap": "webhooks",
}
CLIENTS = {
    "python-3.51.0": {},
    "python-2.54.0": NOT_MANAGED,
    "python-1.109.1": NOT_MANAGED,
    "python-1.60.2": OF_1_60,
    "javascript-6.30.1": NOT_MANAGED,
}
ITEMS = """
files.create files.pages files.content files.delete files.wait_for_processing files.expires_after
uploads.chunked uploads.md5_mismatch uploads.cancel
create.supervised create.dpo create.reinforcement create.hyperparameters create.extra_body create.unknown_key
list.pages_by_metadata jobs.cancel jobs.pause jobs.resume
events.order events.pages checkpoints.list checkpoints.download results.csv models.slashes
graders.validate graders.run graders.error_flags graders.score_model
duplicates.after_500 duplicates.after_time_out duplicates.after_cut duplicates.idempotency_key
errors.400 errors.401 errors.403 errors.404 errors.409 errors.409_is_final errors.429 errors.500 request_id
webhooks.endpoints webhooks.unwrap
""".split()  # noqa: SIM905 - a line a group
REFUSED = dict.fromkeys(("succeeded", "failed", "cancelled"), "refused")
WISHES = {
    "pause": {
        "validating_files": "paused",
        "queued": "paused",
        "running": "running",  # until its step is done
        "paused": "paused",
        **REFUSED,
    },
    "resume": {
        "validating_files": "validating_files",
        "queued": "queued",
        "running": "running",
        "paused": "queued",
        **REFUSED,
    },
    "cancel": {
        "validating_files": "cancelled",
        "queued": "cancelled",
        "running": "running",
        "paused": "cancelled",
        **REFUSED,
        "cancelled": "cancelled",
    },
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def findings(request, run_client):
    """What a client found, by item. All clients that are asked for run at once."""
    tests = [test for test in request.session.items if test.module is request.module]
    chosen = sorted({test.callspec.params["client"] for test in tests})
    makers = {client: _environment(client) for client in chosen}
    runs, missing = {}, {}
    for client, maker in makers.items():
        where, why = maker.communicate()
        if maker.returncode:
            missing[client] = why.strip()
        else:
            command = _scenario(client, where.strip())
            runs[client] = run_client(command, WISHES, CLIENTS[client])

    def of(client):
        if client in missing:
            pytest.skip(missing[client])
        return runs[client].findings()

    return of


def _environment(client: str) -> subprocess.Popen:
    language, version = client.split("-")
    name = "javascript" if language == "javascript" else f"openai=={version}"
    command = [sys.executable, HERE / "environment.py", name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _scenario(client: str, where: str) -> list[str]:
    if client.startswith("javascript"):
        return ["node", str(HERE / "javascript" / "scenario.mjs"), where]
    return [where, str(HERE / "python" / "scenario.py")]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_goes_through_the_whole_list(findings, client):
    assert list(findings(client)) == ITEMS


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_stock_client_cannot_tell_the_difference(findings, client, item):
    found = findings(client)[item]
    assert found["ok"], found["detail"]
