"""Play rounds and print what was found. See the package for what is done, `--help` for how.

`lost`: jobs that did not end where their user wanted them; `duplicated_steps`: steps told twice, or left out;
`wrong_final_weights`: stored weights that are not those of an undisturbed run after the same step;
`wrong_metrics`: numbers of a step that are not; `lying_status`: see `witness`; `half_artifacts`: files that
are not what their sums and manifests say, and stored bytes that no file names after the sweep;
`median_recovery_s`: from a fault that hit a job's run to its next new step. About a minute a round.
"""

import argparse
import json
import statistics
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.chaos.client import Api
from benchmarks.chaos.customer import MODEL
from benchmarks.chaos.faults import FAULTS, possible_faults
from benchmarks.chaos.jobs import write_rows
from benchmarks.chaos.quota import enter_mount_namespace
from benchmarks.chaos.reference import references
from benchmarks.chaos.rounds import Stage, Tally, play
from benchmarks.chaos.settings import HASTY, LEASE_S, SWEEP_S
from benchmarks.chaos.system import System
from benchmarks.chaos.verdict import KEYS, orphans
from benchmarks.chaos.witness import Witness
from castalia.toy_model import make_toy_model

SHOWN = 100


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=3, help="jobs in a round")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, help="only these; else all")
    parser.add_argument("--deadline", type=float, default=420, help="seconds a round may take")
    parser.add_argument("--folder", type=Path, help="an empty folder to keep logs and data in")
    parser.add_argument("--references", type=Path, help="a file to keep undisturbed runs in")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    enter_mount_namespace()
    with tempfile.TemporaryDirectory(prefix="castalia-chaos-") as scratch:
        report = chaos(options, options.folder or Path(scratch))
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<24}{value}")
    return 0


def chaos(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """References, a running system, and all rounds on it."""
    folder.mkdir(exist_ok=True)
    rows, models = folder / "rows", folder / "models"
    for path in (rows, models, folder / "data"):
        path.mkdir()
    write_rows(rows)
    toy = make_toy_model(models / MODEL)
    known = references(options.references or folder / "references.json", rows, toy)
    with ExitStack() as open_:
        system = open_.enter_context(System(folder / "data", models, HASTY))
        api = open_.enter_context(Api(system.url, system.key))
        watching = open_.enter_context(Api(system.url, system.key))
        witness = Witness(
            watching, system.postgres_url, lambda: system.calm_since, LEASE_S + SWEEP_S
        )
        witness.start()
        faults = [name for name in possible_faults(system) if name in (options.faults or FAULTS)]
        stage = Stage(system, api, witness, rows, known, faults, options.deadline, Tally())
        pausing = api.can_pause()
        _play_all(stage, options, pausing=pausing)
        witness.end.set()
        witness.join()
        return _report(stage, options, pausing=pausing)


def _play_all(stage: Stage, options: argparse.Namespace, *, pausing: bool) -> None:
    for number in range(options.rounds):
        print(f"round {number}", file=sys.stderr, flush=True)
        before = len(stage.tally.found)
        try:
            play(stage, number, options.seed, options.jobs, pausing=pausing)
            stage.tally.rounds += 1
        except KeyboardInterrupt:
            break
        except Exception as error:  # noqa: BLE001 - a bug of this benchmark's own must not hide the other rounds
            traceback.print_exc()
            stage.tally.found.append(("broken_rounds", f"round {number}: {error!r}"))
        for key, what in stage.tally.found[before:]:
            print(f"    {key}: {what}", file=sys.stderr, flush=True)
    stage.tally.found += [
        ("half_artifacts", f"{blob} is an orphan") for blob in orphans(stage.system)
    ]
    stage.tally.found += [("lying_status", lie) for lie in sorted(stage.witness.lies)]


def _report(stage: Stage, options: argparse.Namespace, *, pausing: bool) -> dict[str, Any]:
    tally = stage.tally
    counts = Counter(key for key, _ in tally.found)
    recoveries = sorted(tally.recoveries_s)
    left_out = set(FAULTS) - set(stage.faults)
    return {
        "rounds": tally.rounds,
        "seed": options.seed,
        "jobs": tally.jobs,
        **{key: counts[key] for key in (*KEYS, "broken_rounds")},
        "median_recovery_s": round(statistics.median(recoveries), 2) if recoveries else None,
        "longest_recovery_s": round(recoveries[-1], 2) if recoveries else None,
        "lease_s": LEASE_S,
        "attempts": tally.attempts,
        "wishes": dict(tally.wishes),
        "faults": dict(sorted(tally.faults.items())),
        "not_injected": sorted(left_out) + ([] if pausing else ["pause", "resume"]),
        "found": [f"{key}: {what}" for key, what in tally.found[:SHOWN]],
    }


if __name__ == "__main__":
    sys.exit(main())
