"""How fast artifacts go into and out of the store, beside a plain file with fsync, in one run.

    python -m benchmarks.artifacts [--mib 512] [--rounds 3] [--json]

Ways: rows in an embedded Postgres, objects under `file://`, and a plain file as the floor. Rounds are
interleaved; each figure is the best of its rounds.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import migrations
from castalia.child import Life
from castalia.embedded.postgres import PostgresServer
from castalia.guard import Guard
from castalia.ports import free_port
from core.store.blobs import Blobs
from core.store.database import Database
from core.store.objects import open_blobs

MIB = 2**20
CHUNK = os.urandom(MIB)
SERVER_STOP_S = 30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, database(Path(folder)) as opened:
        ways = {
            "postgres": open_blobs(opened, "postgres:"),
            "file_object": open_blobs(opened, f"file://{folder}/objects"),
        }
        figures = measure(ways, Path(folder) / "plain", options.mib, options.rounds)
    if options.json:
        print(json.dumps({"mib": options.mib, "rounds": options.rounds, **figures}))
        return
    for name, value in figures.items():
        print(f"{name:<24}{value:8.1f} MB/s")


@contextmanager
def database(folder: Path) -> Iterator[Database]:
    """A migrated database on a server of its own."""
    server = PostgresServer(folder / "postgres", free_port())
    server.prepare()
    guard = Guard()
    life = Life(server.child(), folder / "postgres.log", guard)
    while not server.ready():
        time.sleep(0.05)
    opened = Database(server.url)
    migrations.upgrade(opened.engine)
    yield opened
    opened.close()
    life.ask_to_stop()
    deadline = time.monotonic() + SERVER_STOP_S
    while life.end() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    life.bury()
    guard.close()


def measure(ways: dict[str, Blobs], plain: Path, mib: int, rounds: int) -> dict[str, float]:
    """MB/s of each way, best of the rounds."""
    best: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        best[name] = max(best.get(name, 0.0), mib * MIB / 1e6 / seconds)

    for _ in range(rounds):
        for name, blobs in ways.items():
            began = time.perf_counter()
            blob = blobs.write(CHUNK for _ in range(mib))
            note(f"{name}_write", time.perf_counter() - began)
            note(f"{name}_read", seconds_to_read(blobs.read(blob.id)))
            blobs.delete(blob.id)
        note("plain_file_write", seconds_to_write(plain, mib))
        with plain.open("rb") as file:
            note("plain_file_read", seconds_to_read(iter(lambda: file.read(4 * MIB), b"")))
    return best


def seconds_to_read(chunks: Iterable[bytes]) -> float:
    """Time to run through all chunks."""
    began = time.perf_counter()
    for _ in chunks:
        pass
    return time.perf_counter() - began


def seconds_to_write(path: Path, mib: int) -> float:
    """Time to write a plain file and have it on disk."""
    began = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(CHUNK)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
