"""A short command, run to its end: what it said and whether it succeeded.

The one idea: every command here is a list of words that castalia itself put together, never a
line for a shell, so no name of a folder can become a command.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """`succeeded` is exit 0 within the limit; `complaint` is the last line of its stderr."""

    succeeded: bool
    output: str
    complaint: str


def run_command(
    words: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit_s: float | None = None,
) -> Outcome:
    """Run `words` with `env` added to ours; OSError when the program cannot be executed."""
    try:
        ended = subprocess.run(  # noqa: S603 - our own words, no shell
            words,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return Outcome(succeeded=False, output="", complaint=f"no answer within {limit_s:g} s")
    complaint = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    return Outcome(succeeded=ended.returncode == 0, output=ended.stdout, complaint=complaint)
