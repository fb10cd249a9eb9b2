"""One reading of a file in a process of its own, its CPU time and the most memory the process had.

    python -m benchmarks.data_reading check|json|pyarrow PATH

`check` is the service's; the peers read each row and keep none.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

PIECE_BYTES = 2**20
BLOCK_BYTES = 10 * 2**20
"""What `datasets` reads at a time."""


@dataclass(frozen=True, slots=True)
class Read:
    """What was found, and what it took; `tracked` rows were looked for repeats."""

    rows: int
    problems: int = 0
    duplicates: int = 0
    tracked: int = 0
    cpu_s: float = 0.0
    peak_bytes: int = 0


def check(path: Path) -> Read:
    """Check every row."""
    from core.data.check import check_rows  # noqa: PLC0415  a peer's process has none of it

    report = check_rows(_pieces(path))
    codes = {w.code: w.line for w in report.warnings}
    tracked = codes.get("duplicates_not_tracked", report.rows)
    return Read(report.rows, report.problem_count, report.duplicate_count, tracked)


def by_json(path: Path) -> Read:
    """Call json.loads on every line."""
    with path.open("rb") as file:
        return Read(sum(isinstance(json.loads(line), dict) for line in file))


def by_pyarrow(path: Path) -> Read:
    """Read record batches as a stream, on this thread."""
    from pyarrow import json as pj  # noqa: PLC0415  as above

    options = pj.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
    with pj.open_json(path, read_options=options) as reader:
        return Read(sum(batch.num_rows for batch in reader))


WAYS: dict[str, Callable[[Path], Read]] = {
    "check": check,
    "json": by_json,
    "pyarrow": by_pyarrow,
}


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _peak_bytes() -> int:
    # Not getrusage: there a child begins with the peak of its parent.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    if found is None:
        raise OSError("/proc/self/status has no VmHWM")
    return int(found[1]) * 1024


if __name__ == "__main__":
    read = WAYS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(asdict(replace(read, cpu_s=time.process_time(), peak_bytes=_peak_bytes()))))
