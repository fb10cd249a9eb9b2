"""`python -m core.train SPEC --out DIR`: what a worker starts and a researcher types.

Exit codes: 0 done, 2 usage, 10 spec, 11 data, 12 out of memory, 13 diverged, 14 interrupted (a checkpoint is
written; the same command goes on from it), 15 the parent died, 16 disk, 1 anything unexpected.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path

from transformers.utils import logging as transformers_logging

from core.ranks import ALONE, Crew
from core.spec.errors import ExitCode, JobError, RunFailure, spec_failure
from core.spec.job import JobSpec
from core.spec.run import CACHE_BYTES, RANKS_FOLDER
from core.spec.tree import SpecError
from core.streambp.errors import StoreError
from core.train.cache import CachePlace
from core.train.course import own_folder
from core.train.disk import disk_is_full
from core.train.journal import Journal
from core.train.launch import launched, refuse_beyond, write_failure
from core.train.memory import is_out_of_memory, out_of_memory
from core.train.run import run_job
from core.train.stop import StopRequest, end_with_parent, end_with_process


def main(arguments: list[str] | None = None) -> ExitCode:
    """Run the command; the code is also the process's."""
    options = _parser().parse_args(arguments)
    stop = StopRequest()
    if options.watch_fd is not None:
        end_with_parent(options.watch_fd)
    transformers_logging.disable_progress_bar()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.launcher is not None:
        return _rank(options, stop)
    journal = Journal(options.out, say=_say)
    try:
        spec = read_spec(options.spec)
        devices = spec.trainer.parallel.devices
        if devices > 1:
            refuse_beyond(devices)
            return launched(arguments or sys.argv[1:], devices, options.out, journal, stop)
        done = _run(spec, options, journal, stop, ALONE)
    except Exception as error:  # noqa: BLE001 - the edge: every failure becomes an event and a code
        failure = as_failure(error)
        if failure.exit_code is ExitCode.unexpected:
            traceback.print_exception(error)
        journal.failed(failure.error)
        sys.stderr.write(_line(failure.error) + "\n")
        return failure.exit_code
    finally:
        journal.close()
    return ExitCode.done if done else ExitCode.interrupted


def _rank(options: argparse.Namespace, stop: StopRequest) -> ExitCode:
    """One of several processes of a run; only the leader's events are the run's."""
    end_with_process(options.launcher)
    crew = Crew.joined()
    folder = own_folder(options.out, crew)
    journal = Journal(folder, say=_say if crew.leads else _silent)
    try:
        done = _run(read_spec(options.spec), options, journal, stop, crew)
        crew.leave()
    except Exception as error:  # noqa: BLE001 - the edge: every failure becomes a file and a code
        failure = as_failure(error)
        traceback.print_exception(error)
        write_failure(options.out / RANKS_FOLDER / str(crew.rank), failure.error)
        return failure.exit_code
    finally:
        journal.close()
    return ExitCode.done if done else ExitCode.interrupted


def _run(
    spec: JobSpec, options: argparse.Namespace, journal: Journal, stop: StopRequest, crew: Crew
) -> bool:
    return run_job(
        spec,
        beside=options.spec.resolve().parent,
        directory=options.out,
        journal=journal,
        stop=stop,
        cache=_cache_place(options),
        crew=crew,
    )


def _silent(_line: str) -> None:
    """The leader says it."""


def read_spec(path: Path) -> JobSpec:
    """The spec in a file. Raises RunFailure that names the path of the fault."""
    try:
        return JobSpec.parse(json.loads(path.read_bytes()))
    except OSError as error:
        raise spec_failure("spec_not_found", f"{path}: {error.strerror}", param="spec") from error
    except ValueError as error:
        if isinstance(error, SpecError):
            param = error.problems[0].path
            raise spec_failure("invalid_spec", f"{path}: {error}", param=param) from error
        raise spec_failure("invalid_spec", f"{path} is not JSON: {error}", param="spec") from error


def as_failure(error: Exception) -> RunFailure:
    """What kind of failure an exception is."""
    if isinstance(error, RunFailure):
        return error
    if is_out_of_memory(error):
        return out_of_memory(error)
    stored = "trainer.stream.store" if isinstance(error, StoreError) else None
    full = disk_is_full(error)
    if full or stored:
        return RunFailure(
            JobError(
                code="insufficient_disk" if full else "store_not_writable",
                message=f"the disk is full: {error}" if full else str(error),
                param=stored,
                fault="platform",
                retryable=True,
            ),
            ExitCode.disk,
        )
    return RunFailure(
        JobError(
            code="internal_error",
            message=f"{type(error).__name__}: {error}",
            fault="platform",
            retryable=True,
        ),
        ExitCode.unexpected,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m core.train", description=__doc__)
    parser.add_argument("spec", type=Path, help="a JobSpec as JSON")
    parser.add_argument("--out", type=Path, required=True, help="the run directory")
    parser.add_argument("--watch-fd", type=int, help="end when this pipe's writer dies")
    parser.add_argument("--launcher", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help="keep encoded rows here for other runs")
    parser.add_argument("--cache-bytes", type=int, default=CACHE_BYTES, help="0: keep none")
    return parser


def _cache_place(options: argparse.Namespace) -> CachePlace | None:
    if options.cache is None or options.cache_bytes <= 0:
        return None
    return CachePlace(options.cache, options.cache_bytes)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _line(error: JobError) -> str:
    hint = f" ({error.hint})" if error.hint else ""
    return f"castalia: {error.code}: {error.message}{hint}"


if __name__ == "__main__":
    sys.exit(main())
