"""The API under many readers, and how fast bytes go through it. Ten minutes.

    python -m benchmarks.api [--short] [--json]

Three parts, each while jobs write metrics at a known rate, except the last:

calm        clients poll jobs and their events: `p50_calm_ms`, `p99_calm_ms`
loaded      the same, while a file goes in and comes back by ranges again and again: `p50_ms`, `p99_ms`
quiet       nothing but transfers, beside a plain file behind uvicorn; interleaved, the best of the rounds

`errors` counts every answer that is not as it should be, in all parts. `api_rss_mb_peak` is the API's over
all of it, and `api_rss_mb_calm` what it had before the first large file. `polling_cpu_share` tells how much
of one core the clients themselves took.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.api.plain_file import NAME, served
from benchmarks.api.service import Service, running
from benchmarks.api.transfers import WrongAnswer, delete, download, fetch, upload

FAILURES = (OSError, HTTPException, WrongAnswer, ValueError, KeyError)


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    clients: int = 200
    jobs: int = 20
    steps_per_s: float = 2.0
    interval_s: float = 2.0
    seconds: float = 60.0
    mib: int = 1024
    range_mib: int = 64
    rounds: int = 3


SHORT = Size(clients=8, jobs=2, interval_s=0.2, seconds=3.0, mib=8, range_mib=3, rounds=1)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="a few clients and 8 MiB")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="castalia-api-") as folder:
        report = measure(Path(folder), SHORT if options.short else Size())
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<28}{value}")
    return 0


def measure(folder: Path, size: Size) -> dict[str, Any]:
    """All three parts."""
    (folder / "service").mkdir()
    with running(folder / "service") as service:
        service.forget_peak()
        with writing(service, size) as jobs:
            calm = polled(service, size, jobs)
            memory_mb = service.memory_mb("VmRSS")
            with transferring(service, size) as failures:
                loaded = polled(service, size, jobs)
        with served(folder / "plain", size.mib) as plain_port:
            rates = transferred(service, plain_port, size)
        peak_mb = service.memory_mb("VmHWM")
    told = [*calm["errors"], *loaded["errors"], *failures]
    return {
        **_times(loaded, ""),
        **_times(calm, "_calm"),
        "requests": len(calm["times_s"]) + len(loaded["times_s"]),
        "errors": len(told),
        "first_errors": told[:3],
        "polling_cpu_share": round(max(calm["cpu_share"], loaded["cpu_share"]), 3),
        **{name: round(rate, 1) for name, rate in rates.items()},
        "download_ratio_vs_static": round(rates["download_mb_s"] / rates["static_mb_s"], 3),
        "api_rss_mb_calm": round(memory_mb, 1),
        "api_rss_mb_peak": round(peak_mb, 1),
        "mib": size.mib,
        "clients": size.clients,
    }


@contextmanager
def writing(service: Service, size: Size) -> Iterator[list[str]]:
    """Ids of jobs whose metrics are written meanwhile."""
    module = "benchmarks.api.writers"
    words = [service.database_url, str(size.jobs), str(size.steps_per_s)]
    with subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.stdin.close()
        written = process.stdout.read()
    if process.returncode or json.loads(written) == 0:
        raise RuntimeError("the writers failed; see above")


def polled(service: Service, size: Size, jobs: list[str]) -> dict[str, Any]:
    """What the clients met."""
    words = [str(service.port), service.key, str(size.clients)]
    words += [str(size.seconds), str(size.interval_s), *jobs]
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "benchmarks.api.polling", *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def transferring(service: Service, size: Size) -> Iterator[list[str]]:
    """A file goes in and comes back, again and again; what went wrong is in the list at the end."""
    failures: list[str] = []
    end = threading.Event()

    def again_and_again() -> None:
        while not end.is_set():
            try:
                file_id, _ = upload(service, size.mib)
                download(service, file_id, size.mib, range_mib=size.range_mib)
                delete(service, file_id)
            except FAILURES as error:
                failures.append(f"{type(error).__name__}: {error}")
                end.wait(1.0)

    thread = threading.Thread(target=again_and_again)
    thread.start()
    try:
        yield failures
    finally:
        end.set()
        thread.join()


def transferred(service: Service, plain_port: int, size: Size) -> dict[str, float]:
    """MB/s of each way, best of the rounds."""
    best: dict[str, float] = {}
    for _ in range(size.rounds):
        file_id, upload_rate = upload(service, size.mib)
        rates = {
            "upload_mb_s": upload_rate,
            "download_mb_s": download(service, file_id, size.mib),
            "range_download_mb_s": download(service, file_id, size.mib, range_mib=size.range_mib),
            "static_mb_s": fetch(plain_port, f"/{NAME}", {}, size.mib, size.mib),
        }
        delete(service, file_id)
        best = {name: max(rate, best.get(name, 0.0)) for name, rate in rates.items()}
    return best


def _times(found: dict[str, Any], part: str) -> dict[str, float]:
    hundredths = quantiles(found["times_s"], n=100)
    return {
        f"p50{part}_ms": round(hundredths[49] * 1000, 2),
        f"p99{part}_ms": round(hundredths[98] * 1000, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
