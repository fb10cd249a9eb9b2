"""The same bytes as a plain file behind starlette's static files: what a download is compared with.

python -m benchmarks.api.plain_file FOLDER PORT
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.staticfiles import StaticFiles

from benchmarks.api.service import answers, living
from benchmarks.api.transfers import CHUNK
from castalia.child import Child
from castalia.guard import Guard
from castalia.ports import free_port

NAME = "plain.bin"
PROBE = "ready"


@contextmanager
def served(folder: Path, mib: int) -> Iterator[int]:
    """The port of a server of such a file, which is made here."""
    folder.mkdir()
    (folder / PROBE).touch()
    with (folder / NAME).open("wb") as file:
        for _ in range(mib):
            file.write(CHUNK)
    port = free_port()
    command = (sys.executable, "-m", "benchmarks.api.plain_file", str(folder), str(port))
    child = Child("static", command, ready=lambda: answers(f"http://127.0.0.1:{port}/{PROBE}"))
    guard = Guard()
    try:
        with living(child, folder, guard):
            yield port
    finally:
        guard.close()


if __name__ == "__main__":
    uvicorn.run(
        StaticFiles(directory=sys.argv[1]), port=int(sys.argv[2]), access_log=False, log_config=None
    )
