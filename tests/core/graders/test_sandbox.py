"""What a process for grading is, seen from outside: what it may ask, how it is missed, that it ends."""

import os
import subprocess
import sys

import pytest

from core.graders import sandbox
from core.graders.bench import Bench, GradingFailed, Job
from core.graders.inside.confine import Limits
from core.graders.inside.system_calls import filter_program
from core.graders.sandbox import SandboxUnavailable, command, sandbox_available

FUZZY = Job("text_similarity", {"metric": "fuzzy_match"})
PAIR = {"input": "ab", "reference": "ab"}


@pytest.fixture
def no_bubblewrap(monkeypatch):
    """A machine on which bubblewrap is nowhere to be found."""
    monkeypatch.setenv("PATH", "/nowhere")
    sandbox_available.cache_clear()
    yield
    sandbox_available.cache_clear()


@pytest.mark.usefixtures("no_bubblewrap")
def test_source_of_a_users_is_never_run_without_a_sandbox():
    assert "not installed" in sandbox_available()
    with pytest.raises(SandboxUnavailable, match="bubblewrap is not installed"):
        command(strangers=True)


@pytest.mark.usefixtures("no_bubblewrap")
def test_libraries_grade_without_bubblewrap_under_the_same_limits():
    with Bench(FUZZY, Limits(5.0)) as bench:
        assert bench.ask(PAIR) == 1.0
        assert bench.process.args[0].rpartition("/")[2].startswith("python")


@pytest.mark.usefixtures("no_bubblewrap", "tmp_path")
def test_the_filter_holds_without_bubblewrap_too(tmp_path):
    code = (
        "import os, socket\n"
        "from core.graders.inside.system_calls import apply_filter, filter_program\n"
        "apply_filter(filter_program())\n"
        "for attempt in (os.fork, socket.socket, lambda: open('f', 'w'), lambda: os.kill(1, 0)):\n"
        "    try: attempt()\n"
        "    except PermissionError: print('refused')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(sandbox.HOUSE)},
    )
    assert run.stdout.split() == ["refused"] * 4


def test_a_machine_whose_calls_are_unknown_is_refused():
    assert len(filter_program("x86_64")) % 8 == len(filter_program("aarch64")) % 8 == 0
    with pytest.raises(OSError, match="riscv64"):
        filter_program("riscv64")


def test_a_process_that_dies_is_replaced_for_the_next_answer():
    with Bench(FUZZY, Limits(5.0)) as bench:
        assert bench.ask(PAIR) == 1.0
        bench.process.kill()
        with pytest.raises(GradingFailed):
            bench.ask(PAIR)
        assert bench.ask(PAIR) == 1.0


def test_a_process_ends_with_what_started_it():
    with Bench(FUZZY, Limits(5.0)) as bench:
        bench.start()
        number = bench.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.skipif(sandbox_available() is not None, reason=str(sandbox_available()))
def test_packages_that_lie_below_tmp_are_seen_in_the_sandbox(tmp_path, monkeypatch):
    """As those of a virtual environment that was made there."""
    package = tmp_path / "site-packages" / "lying_in_tmp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WORTH = 0.25\n")
    monkeypatch.syspath_prepend(str(package.parent))
    source = "import lying_in_tmp\ndef grade(sample, item):\n    return lying_in_tmp.WORTH\n"
    with Bench(Job("python", {"source": source}, strangers=True), Limits(5.0)) as bench:
        assert bench.ask({"sample": {}, "item": {}}) == 0.25
