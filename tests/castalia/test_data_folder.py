"""The data folder: private, whole, and held by one castalia at a time."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from castalia.data_folder import ROOMS, open_data_folder
from castalia.errors import DataFolderInUseError, DataFolderUnusableError

OPEN = "import sys; from castalia.data_folder import open_data_folder as o; o(sys.argv[1])"
REPOSITORY = Path(__file__).parents[2]


def test_it_is_made_with_its_rooms_for_the_owner_alone(tmp_path: Path) -> None:
    with open_data_folder(tmp_path / "new" / "data") as folder:
        made = [folder.root, *(getattr(folder, room) for room in ROOMS)]
        assert [path.is_dir() for path in made] == [True] * 8
        assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}
        assert folder.logs == tmp_path / "new" / "data" / "logs"


def test_a_second_castalia_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with (
        open_data_folder(tmp_path),
        pytest.raises(DataFolderInUseError, match=rf"pid {os.getpid()}: stop it"),
    ):
        open_data_folder(tmp_path)


def test_it_can_be_opened_again_after_it_was_given_back(tmp_path: Path) -> None:
    open_data_folder(tmp_path).close()
    open_data_folder(tmp_path).close()


def test_the_lock_of_a_dead_castalia_holds_nobody_back(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", OPEN, tmp_path], check=True, cwd=REPOSITORY)
    with open_data_folder(tmp_path):
        assert (tmp_path / "castalia.lock").read_text() == str(os.getpid())


def test_a_folder_that_may_not_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    # Root may write anywhere, so the attempt is made by another account; / is one of root's.
    as_nobody = "import os, castalia.data_folder; os.geteuid() or os.setuid(65534)"
    path = Path("/castalia-data") if os.geteuid() == 0 else tmp_path / "data"
    attempt = subprocess.run(
        [sys.executable, "-c", f"{as_nobody}\n{OPEN}", path],
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    told = attempt.stderr.strip().splitlines()[-1]
    assert f"DataFolderUnusableError: data folder {path} cannot be used" in told
    assert "Permission denied" in told
    assert "--data" in told


def test_a_file_in_its_place_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DataFolderUnusableError, match="File exists"):
        open_data_folder(tmp_path / "data")
