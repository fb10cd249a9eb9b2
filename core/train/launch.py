"""One process a device, by torch's launcher: started together, stopped together, and one failure ends all.

The launcher trains nothing. What ends a rank is written by that rank into its own folder; the launcher tells
the run's journal of the one failure that was not a consequence of another, and ends as that rank did, by the
same code or the same signal, so that whoever watches sees what it would see of a single process.
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # it is public, and untyped
from torch.distributed.elastic.multiprocessing import (
    DefaultLogsSpecs,
    PContext,
    Std,
    start_processes,
)

from core.spec.errors import ExitCode, JobError, spec_failure
from core.spec.run import RANKS_FOLDER
from core.train.journal import Journal
from core.train.stop import StopRequest

FAILURE_FILE = "failure.json"
_HOST = "127.0.0.1"
_LOOK_S = 0.2
_CONSEQUENCES = (ExitCode.unexpected, -signal.SIGTERM, ExitCode.interrupted)
"""How a rank ends whose neighbour is gone, or that was asked to stop: last among the reasons."""


def launched(
    command: list[str], devices: int, directory: Path, journal: Journal, stop: StopRequest
) -> ExitCode:
    """Run `python -m core.train` with ``command`` on so many ``devices``; the code is the run's."""
    folder = directory / RANKS_FOLDER
    for rank in range(devices):
        (folder / str(rank)).mkdir(parents=True, exist_ok=True)
        (folder / str(rank) / FAILURE_FILE).unlink(missing_ok=True)
    store = TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    arguments = ("-P", "-m", "core.train", *command, "--launcher", str(os.getpid()))
    ranks = range(devices)
    context = start_processes(
        name="rank",
        entrypoint=sys.executable,
        args=dict.fromkeys(ranks, arguments),
        envs={rank: _environment(rank, devices, store.port) for rank in ranks},
        logs_specs=DefaultLogsSpecs(log_dir=str(folder), tee=Std.ALL),
    )
    stop.listen()  # torch's launcher would raise at SIGTERM, and its ranks would never hear of it
    try:
        codes = _followed(context, stop)
    finally:
        context.close()
    cause = _cause(codes)
    if cause is None:
        return ExitCode.done
    code = codes[cause]
    if code < 0:
        sys.stderr.write(f"castalia: rank {cause} was ended by signal {-code}\n")
        sys.stderr.flush()
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    if code != ExitCode.interrupted:
        _tell(folder / str(cause) / FAILURE_FILE, journal, cause)
    return ExitCode(code)


def refuse_beyond(devices: int) -> None:
    """Raise RunFailure where this machine has GPUs, and not so many."""
    there = torch.cuda.device_count()
    if 0 < there < devices:
        raise spec_failure(
            "too_few_devices",
            f"trainer.parallel.devices is {devices}, and this machine has {there}",
            param="trainer.parallel.devices",
            hint=f"set trainer.parallel.devices to at most {there}",
        )


def write_failure(folder: Path, error: JobError) -> None:
    """What ended this rank, for the launcher."""
    (folder / FAILURE_FILE).write_text(error.model_dump_json())


def _followed(context: PContext, stop: StopRequest) -> Mapping[int, int]:
    """The exit code of each rank, once all have ended; a wish to stop goes to all of them."""
    told = False
    while True:
        ended = context.wait(_LOOK_S)
        if ended is not None:
            codes = dict.fromkeys(range(context.nprocs), int(ExitCode.done))
            return codes | {rank: one.exitcode for rank, one in ended.failures.items()}
        if stop.asked and not told:
            told = True
            for pid in context.pids().values():
                os.kill(pid, signal.SIGTERM)


def _cause(codes: Mapping[int, int]) -> int | None:
    """The rank whose end is the reason for the others'."""
    failed = [rank for rank, code in codes.items() if code != ExitCode.done]
    return min(failed, key=lambda rank: _far_from_cause(codes[rank]), default=None)


def _far_from_cause(code: int) -> int:
    return _CONSEQUENCES.index(code) + 1 if code in _CONSEQUENCES else 0


def _tell(path: Path, journal: Journal, rank: int) -> None:
    if path.exists():
        error = JobError.model_validate_json(path.read_bytes())
    else:
        error = JobError(
            code="internal_error",
            message=f"rank {rank} ended without a reason",
            fault="platform",
            retryable=True,
        )
    journal.failed(error)


def _environment(rank: int, devices: int, port: int) -> dict[str, str]:
    threads = max(1, (os.cpu_count() or 1) // devices)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(devices),
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
    }
