"""A worker tells the longest contexts of its models, and asks again when a model comes."""

import json
import sys

import pytest

from core.models.catalog import Catalog
from core.store.workers import live_workers
from worker.device import Device
from worker.limits import Limits
from worker.presence import Presence

ECHO = (sys.executable, "-c", "import json, sys; o = json.load(sys.stdin); print(json.dumps(o))")
CPU = Device("cpu", 2**30)


@pytest.fixture
def folder(tmp_path):
    def put(name):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.json").write_text("{}")
        return tmp_path / "models"

    return put


@pytest.fixture
def limits():
    def make(folder, ask=ECHO, device=CPU):
        return Limits(Catalog(folder), [device], ask=ask, first_after_s=0.0, look_every_s=0.05)

    return make


def test_it_asks_for_the_models_that_lie_there_and_again_when_one_comes(folder, limits, until):
    with limits(folder("a")) as found:
        found.start()
        until(lambda: found.known is not None)
        assert found.known["device"] == "cpu"
        assert found.known["budget_bytes"] == 2**30
        assert list(found.known["models"]) == ["a"]
        folder("b")
        until(lambda: sorted(found.known["models"]) == ["a", "b"])


def test_a_worker_that_cannot_tell_says_so_and_works_on(folder, limits, until, caplog):
    with limits(folder("a"), (sys.executable, "-c", "raise SystemExit(1)")) as found:
        found.start()
        until(lambda: "the longest contexts are not known" in caplog.text)
        assert found.known is None


def test_what_a_worker_found_stands_in_the_list_of_workers(context, folder, limits, until):
    with (
        limits(folder("a")) as found,
        Presence(
            context.database, "w:1", version="1", devices=[CPU], every_s=0.05, limits=found
        ) as presence,
    ):
        presence.start()
        found.start()

        def told():
            with context.database.begin() as session:
                return [row.limits for row in live_workers(session)]

        until(lambda: any(told()))
        assert told() == [json.loads(json.dumps(found.known))]
