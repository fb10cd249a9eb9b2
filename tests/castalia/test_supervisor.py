"""The supervisor: order, readiness, crashes, back-off, and an end that leaves nobody behind."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from castalia.child import Child
from castalia.errors import ChildCannotStartError
from castalia.supervisor import delay_after

FOREVER = "echo $$ >> all.pids; touch $0.up; exec sleep 600"
WITH_GRANDCHILD = "sleep 600 & echo $! $$ >> all.pids;"
DEAF = f"trap '' TERM; {WITH_GRANDCHILD} touch $0.up; while :; do sleep 0.05; done"


def test_a_child_starts_only_when_the_one_before_it_is_ready(stage: Any, tmp_path: Path) -> None:
    first = replace(stage.shell("first", f"sleep 0.1; {FOREVER}"), where="http://127.0.0.1:1")
    second = stage.shell("second", f"test -e first.up && touch orderly; {FOREVER}")
    assert stage.run([first, second], lambda: stage.count("ready") == 2) == 0
    assert (tmp_path / "orderly").exists()
    assert stage.said[0] == "first   ready    http://127.0.0.1:1"
    assert stage.said[2:] == ["second  stopped", "first   stopped"]


def test_a_crash_tells_its_reason_and_is_restarted(stage: Any, tmp_path: Path) -> None:
    script = f"test -e again && {{ {FOREVER}; }}; touch again; echo why it broke; exit 3"
    stage.run([stage.shell("api", script)], lambda: stage.count("ready") == 1)
    log = tmp_path / "api.log"
    assert stage.said[0] == f"api  crashed  exit 3: why it broke ({log}); again in 1 s"
    assert log.read_text() == "why it broke\n"


def test_a_death_by_signal_is_named_and_brings_the_group_down(stage: Any) -> None:
    script = f"test -e again && {{ {FOREVER}; }}; touch again; {WITH_GRANDCHILD} kill -9 $$"
    stage.run([stage.shell("worker", script)], lambda: stage.count("ready") == 1)
    assert "crashed  SIGKILL (" in stage.said[0]
    assert len(stage.pids("all.pids")) == 3


def test_five_failures_before_it_was_ever_ready_stop_everything(stage: Any) -> None:
    steady = stage.shell("db", FOREVER)
    broken = stage.shell("api", "echo one; echo no module named x; exit 1")
    assert stage.run([steady, broken], lambda: False) == 1
    delays = [line.split("again in ")[1] for line in stage.said if "again in" in line]
    assert delays == ["1 s", "2 s", "4 s", "8 s"]
    assert "api  gave up  exit 1, 5 times in a row" in stage.said[5]
    assert stage.said[6:] == ["    one", "    no module named x", "db   stopped"]


def test_one_that_was_ready_is_restarted_for_ever(stage: Any) -> None:
    flaky = stage.shell("api", "touch $0.up; sleep 0.1; exit 1")
    assert stage.run([flaky], lambda: stage.count("crashed") == 7) == 0
    assert "again in 30 s" in stage.said[-1]


def test_a_minute_of_life_resets_the_delay(stage: Any, tmp_path: Path) -> None:
    def let_it_end_after_a_minute() -> bool:
        if stage.now > 70:
            (tmp_path / "enough").touch()
        return bool(stage.count("crashed") == 2)

    script = "test -e again || { touch again; exit 1; }; until test -e enough; do sleep 0.02; done"
    stage.run([stage.shell("api", script)], let_it_end_after_a_minute)
    assert "again in 1 s" in stage.said[-1]


def test_delays_double_up_to_half_a_minute() -> None:
    assert [delay_after(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


def test_one_that_never_becomes_ready_counts_as_failed(stage: Any) -> None:
    slow = replace(stage.shell("api", "exec sleep 600"), start_limit_s=2.0)
    assert stage.run([slow], lambda: False) == 1
    assert "not ready after 2 s" in stage.said[0]


def test_without_a_check_a_child_is_ready_when_it_has_lived_for_a_second(stage: Any) -> None:
    silent = replace(stage.shell("worker", FOREVER), ready=None)
    stage.run([silent], lambda: stage.count("ready") == 1)
    assert 1.0 <= stage.now < 2.0


def test_a_deaf_child_is_killed_with_its_group_after_its_grace(stage: Any) -> None:
    deaf = replace(stage.shell("api", DEAF), stop_grace_s=5.0)
    assert stage.run([deaf], lambda: stage.count("ready") == 1) == 0
    assert stage.said[-1] == "api  killed"


def test_the_stop_signal_of_the_child_is_used(stage: Any, tmp_path: Path) -> None:
    script = "trap 'touch bye; exit 0' INT; touch $0.up; while :; do sleep 0.02; done"
    polite = stage.shell("db", script)
    stage.run([replace(polite, stop_signal=signal.SIGINT)], lambda: stage.count("ready") == 1)
    assert (tmp_path / "bye").exists()


def test_a_second_wish_kills_at_once(stage: Any) -> None:
    deaf = stage.shell("api", DEAF)
    assert stage.run([deaf], lambda: stage.count("ready") == 1, wishes=2) == 130
    assert stage.said[-1] == "api  killed"


def test_a_missing_program_is_an_error_and_stops_the_others(stage: Any) -> None:
    missing = Child("api", ("/nowhere/api",))
    with pytest.raises(ChildCannotStartError, match=r"api .*/nowhere/api \(No such file"):
        stage.run([stage.shell("db", FOREVER), missing], lambda: False)
    assert stage.said[-1] == "db   stopped"


def test_the_environment_of_a_child_is_added_to_ours(stage: Any, tmp_path: Path) -> None:
    child = replace(stage.shell("api", f'echo "$SAID $HOME"; {FOREVER}'), env={"SAID": "yes"})
    stage.run([child], lambda: stage.count("ready") == 1)
    assert (tmp_path / "api.log").read_text().split() == ["yes", os.environ["HOME"]]


def test_a_large_log_is_turned_over_once(stage: Any, tmp_path: Path) -> None:
    with (tmp_path / "api.log").open("wb") as file:
        file.truncate(17 * 2**20)
    stage.run([stage.shell("api", f"echo new; {FOREVER}")], lambda: stage.count("ready") == 1)
    assert (tmp_path / "api.log").read_text() == "new\n"
    assert (tmp_path / "api.log.1").stat().st_size == 17 * 2**20
