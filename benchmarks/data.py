"""How much memory and CPU time it takes to check a training file, plain, gzip, zstd, and with short rows.

    python -m benchmarks.data [--json] [--bytes 2147483648] [--parts plain packed short]

`plain` has `--bytes` of chat rows of mixed length from benchmarks/data, a few broken, some there twice,
`packed` is that in gzip and in zstd, `short` is as many bytes of text rows of 100 bytes. Each is checked
in a process of its own by the function that `worker prepare` and `castalia data check` call. MB are those
of the rows as they are decompressed. The peers read the plain file in the same run: `json` calls
json.loads on each line, and `pyarrow` is its streaming reader, which `datasets` uses; neither looks at
what the rows hold.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cases import last_object
from benchmarks.data_files import Written, packed, write_chat, write_short
from benchmarks.data_reading import Read

GIB = 2**30
PARTS = ("plain", "packed", "short")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bytes", type=int, default=2 * GIB)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measured(Path(folder), options.bytes, options.parts)
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<40}{value}")
    return 0


def measured(folder: Path, size: int, parts: Collection[str] = PARTS) -> dict[str, Any]:
    """Write the files one after the other, and read each."""
    report: dict[str, Any] = {}
    if {"plain", "packed"} & set(parts):
        written = write_chat(folder / "rows", size)
        report |= asdict(written)
        if "plain" in parts:
            report |= beside_peers(folder / "rows", written)
        if "packed" in parts:
            report |= in_containers(folder / "rows", written)
        (folder / "rows").unlink()
    if "short" in parts:
        short = write_short(folder / "short", size)
        found = read("check", folder / "short")
        report |= {"short_bytes": short.bytes, "short_rows": short.rows}
        report |= figures("short_", found, short) | {"short_rows_tracked": found.tracked}
    return report


def beside_peers(path: Path, written: Written) -> dict[str, Any]:
    """The check and its peers on one file. Raises SystemExit if the check missed something."""
    ours = read("check", path)
    if (ours.rows, ours.problems, ours.duplicates) != (
        written.rows,
        written.broken,
        written.duplicates,
    ):
        raise SystemExit(f"the check found {ours} in {written}")
    report = figures("", ours, written)
    for peer in ("json", "pyarrow"):
        found = read(peer, path)
        report |= figures(f"{peer}_", found, written)
        report[f"cpu_ratio_to_{peer}"] = round(ours.cpu_s / found.cpu_s, 2)
    return report


def in_containers(path: Path, written: Written) -> dict[str, Any]:
    """The check on the same rows, compressed."""
    report: dict[str, Any] = {}
    for kind in ("gzip", "zstd"):
        with packed(path, kind) as compressed:
            report |= figures(f"{kind}_", read("check", compressed), written)
    return report


def read(way: str, path: Path) -> Read:
    """Read a file in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.data_reading", way, str(path)]
    found = Read(**last_object(way, command, {"OMP_NUM_THREADS": "1"}))
    sys.stderr.write(f"{way:<10}{found}\n")
    return found


def figures(prefix: str, found: Read, written: Written) -> dict[str, Any]:
    """Peak and speed, as keys of the report."""
    return {
        f"{prefix}peak_rss_mib": round(found.peak_bytes / 2**20, 1),
        f"{prefix}cpu_mb_s": round(written.bytes / 1e6 / found.cpu_s, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
