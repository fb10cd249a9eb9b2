"""`castalia up`: one Ctrl-C ends everything, a crash is repaired, and what cannot start says why."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def up(*arguments, **popen):
    command = [sys.executable, "-m", "castalia", "up", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, **popen)


def test_one_ctrl_c_ends_every_child_and_the_data_stays(start_up):
    service = start_up()
    pids = [service.child_pid(word) for word in ("api", "prepare", "train", "janitor")]
    assert all(pids)
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(60) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    stopped = [line.split()[0] for line in service.output.read_text().splitlines()[-6:]]
    assert stopped == ["janitor", "train", "prepare", "api", "valkey", "postgres"]


def test_the_first_key_is_printed_once_and_only_this_machine_is_listened_to(service):
    assert service.output.read_text().count(service.key) == 1
    assert (service.data / "secrets" / "api_key").stat().st_mode & 0o077 == 0
    # Another address of this machine's loopback, which a socket for all addresses would answer.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", service.port), timeout=5)


def test_a_child_that_is_killed_is_reported_and_started_again(service, wait_for):
    first = service.child_pid("castalia", "api")
    os.kill(first, signal.SIGKILL)
    second = wait_for(
        lambda: (pid := service.child_pid("castalia", "api")) != first and pid, service
    )
    assert second != first
    wait_for(lambda: service.output.read_text().count("api       ready") == 2, service)
    assert "crashed  SIGKILL" in service.output.read_text()


def test_a_second_up_on_the_same_folder_is_refused(service):
    refused = up("--data", str(service.data), "--port", "0")
    assert refused.returncode == 1
    refused = up("--data", str(service.data))
    assert f"in use by castalia with pid {service.process.pid}" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_taken_port_is_one_line_with_a_remedy(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = up("--data", str(tmp_path / "data"), "--port", str(port))
    assert refused.returncode == 1
    assert f"port {port}" in refused.stderr
    assert "--port" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_written_is_one_line_with_a_remedy():
    refused = up("--data", "/proc/castalia")
    assert refused.returncode == 1
    assert "/proc/castalia" in refused.stderr
    assert "--data" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_folder_named_like_ours_where_the_user_stands_shadows_nothing(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('shadowed')")
    castalia = Path(sys.executable).with_name("castalia")
    shown = subprocess.run([castalia, "keys", "list"], check=False, cwd=tmp_path, text=True,
                           capture_output=True, env={"PATH": os.environ["PATH"]})  # fmt: skip
    assert "CASTALIA_DATABASE_URL is not set" in shown.stderr
