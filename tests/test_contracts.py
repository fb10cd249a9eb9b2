"""The import contracts catch what they are there for, shown on a copy of the tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("api", "worker", "core", "castalia", "migrations")


@pytest.fixture
def house(tmp_path) -> Path:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    return subprocess.run(
        command,
        check=False,
        cwd=house,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_the_house_as_it_stands_keeps_its_contracts(house):
    assert lint(house).returncode == 0


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("api/app.py", "import torch", "no torch outside the trainer"),
        ("worker/watch.py", "import core.train.loop", "no torch outside the trainer"),
        ("api/auth.py", "import worker.watch", "API and worker, which never meet"),
        ("core/store/jobs.py", "import core.data.check", "the store knows the spec"),
        ("core/train/loop.py", "import core.store.jobs", "the rooms of the core"),
        ("worker/watch.py", "import sqlalchemy", "only the store and the migrations know SQL"),
    ],
)
def test_a_forbidden_import_is_caught(house, file, line, contract):
    path = house / file
    path.write_text(path.read_text() + f"\n{line}\n")
    caught = lint(house)
    assert caught.returncode != 0
    broken = [row for row in caught.stdout.splitlines() if row.endswith("BROKEN")]
    assert any(contract in row for row in broken), caught.stdout


def test_a_room_without_a_place_is_caught(house):
    (house / "core" / "utils.py").write_text('"""Things."""\n')
    caught = lint(house)
    assert caught.returncode != 0
    assert "core.utils" in caught.stdout
