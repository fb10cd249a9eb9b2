"""Run directories that nobody runs in any more: what a worker that was killed left on this machine.

A directory is removed that no lease holds and that nobody has written to for a while. Those of jobs that this
database does not know are somebody else's.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Self

from core.store.database import Database, DatabaseDown
from core.store.leases import held_attempts
from worker.layout import ATTEMPT, remove_run

log = logging.getLogger(__name__)

LOOKS_IN_A_LIFETIME = 4


def sweep_runs(database: Database, runs_dir: Path, older_than_s: float) -> list[Path]:
    """Remove the directories of attempts that are over and as old as that; returns them."""
    runs = [path for path in runs_dir.glob(f"*/{ATTEMPT}*") if path.is_dir()]
    if not runs:
        return []
    with database.begin() as session:
        held = held_attempts(session, {path.parent.name for path in runs})
    gone = []
    for path in runs:
        job_id = path.parent.name
        if job_id not in held or path.name == f"{ATTEMPT}{held[job_id]}":
            continue
        if time.time() - _written_at(path) > older_than_s:
            remove_run(path)
            gone.append(path)
    return gone


def _written_at(directory: Path) -> float:
    """When it was written to last, in unix seconds; a run appends to files that lie in it."""
    times = [directory.stat().st_mtime]
    times += [path.lstat().st_mtime for path in directory.iterdir()]
    return max(times)


class StaleRuns:
    """Sweeps from `start` to the end of the ``with`` block, at once and from time to time."""

    def __init__(self, database: Database, runs_dir: Path, older_than_s: float) -> None:
        self._database = database
        self._runs_dir = runs_dir
        self._older_than_s = older_than_s
        self._end = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._database.close()

    def start(self, **_: object) -> None:
        """From now on; not earlier than all processes are forked, which share no thread or connection."""
        threading.Thread(target=self._sweep_until_end, name="stale-runs", daemon=True).start()

    def _sweep_until_end(self) -> None:
        self._sweep()
        while not self._end.wait(self._older_than_s / LOOKS_IN_A_LIFETIME):
            self._sweep()

    def _sweep(self) -> None:
        try:
            for path in sweep_runs(self._database, self._runs_dir, self._older_than_s):
                log.warning("nobody runs in %s any more; removed", path)
        except DatabaseDown as error:
            log.warning("the database is away: %s", str(error).splitlines()[0])
        except OSError as error:  # Another worker of this machine sweeps, or ends its run.
            log.warning("run directories were not swept: %s", error)
