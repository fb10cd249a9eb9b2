"""Started by root, Postgres runs as somebody else, and only castalia's own folder is opened."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castalia.child import Child
from castalia.embedded import PostgresServer, account
from castalia.errors import CannotLeaveRootError
from castalia.ports import free_port

Start = Callable[[Child], subprocess.Popen[bytes]]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A system without `unshare`."""
    for program in ("setpriv", "test"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    account.user_namespaces_work.cache_clear()
    yield
    account.user_namespaces_work.cache_clear()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Not under tmp_path: the folders above that are closed to other accounts."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        (Path(top) / "castalia").mkdir(mode=0o700)
        yield Path(top) / "castalia" / "postgres"


def test_in_a_user_namespace_root_is_nobody_and_the_files_stay_its_own(
    postgres: PostgresServer, start: Start
) -> None:
    if not account.user_namespaces_work():
        pytest.skip("this kernel has no user namespaces for us")
    process = start(postgres.child())
    inside = Path(f"/proc/{process.pid}/uid_map").read_text().split()
    assert inside == ["65534", "0", "1"]
    assert postgres.cluster.stat().st_uid == 0


@pytest.mark.skipif(
    not all(folder.stat().st_mode & stat.S_IXOTH for folder in Path(sys.prefix).parents),
    reason="this environment lies in a folder that other accounts cannot enter",
)
@pytest.mark.usefixtures("no_namespaces")
def test_without_namespaces_the_folder_is_given_to_nobody(open_folder: Path, start: Start) -> None:
    server = PostgresServer(open_folder, free_port())
    server.prepare()
    process = start(server.child())
    assert Path(f"/proc/{process.pid}").stat().st_uid == 65534
    assert server.password_file.stat().st_uid == 65534
    assert stat.S_IMODE(server.password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(open_folder.parent.stat().st_mode) == 0o711
    process.send_signal(server.child().stop_signal)
    assert process.wait(20) == 0


def test_the_owner_of_the_folder_decides(open_folder: Path) -> None:
    open_folder.mkdir()
    os.chown(open_folder, 1234, 4321)
    account.claim(open_folder)
    shown = subprocess.run(
        [*account.prefix(open_folder), "id"], check=True, capture_output=True, text=True
    ).stdout
    assert shown.split() == ["uid=1234", "gid=4321", "groups=4321"]


def test_a_closed_folder_further_up_is_left_closed_and_reported(tmp_path: Path) -> None:
    folder = tmp_path / "castalia" / "postgres"
    folder.mkdir(parents=True)
    tmp_path.chmod(0o700)
    os.chown(folder, 1234, 4321)
    with pytest.raises(CannotLeaveRootError, match="ordinary user"):
        account.claim(folder)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.usefixtures("no_namespaces")
def test_with_no_way_out_of_root_the_error_tells_the_choices(
    open_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "setpriv").unlink()
    with pytest.raises(CannotLeaveRootError, match=r"ordinary user.*--database-url"):
        PostgresServer(open_folder, free_port()).prepare()
