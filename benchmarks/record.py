"""Run a benchmark and keep what it found, with command, commit, date and machine.

    python -m benchmarks.record NAME MODULE [ARGUMENT ...]

writes benchmarks/results/DATE-NAME.json. A figure in the documents comes from such a file.
"""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run `python -m MODULE --json ARGUMENTS`; its exit status is ours, and a failure is not kept."""
    if len(sys.argv) <= 2:  # noqa: PLR2004
        sys.stderr.write(f"{__doc__}\n")
        return 2
    name, module, *arguments = sys.argv[1:]
    command = ["python", "-m", module, "--json", *arguments]
    about = provenance(command)
    done = subprocess.run(  # noqa: S603  our own modules
        [sys.executable, *command[1:]], check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        return done.returncode
    path = RESULTS / f"{about['date'][:10]}-{name}.json"
    path.write_text(json.dumps(about | {"found": json.loads(done.stdout)}, indent=1) + "\n")
    print(path)
    return 0


def provenance(command: list[str]) -> dict[str, Any]:
    """What a figure is worth nothing without; a copy of the tree without its history has no commit."""
    return {
        "command": " ".join(command),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
    }


def _git(*words: str) -> str | None:
    done = subprocess.run(  # noqa: S603
        ["git", *words],  # noqa: S607
        check=False,
        capture_output=True,
        text=True,
        cwd=RESULTS.parent,
    )
    return None if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
