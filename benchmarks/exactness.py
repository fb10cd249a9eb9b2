"""Every causal language model type, streamed beside plain autograd, at toy size in float64.

    python -m benchmarks.exactness [TYPE ...] [--json] [--write docs/families.md]

A type is *streamed*, *partly* (some layers are checkpointed whole) or *checkpointed*; *refused* where
the engine says that it cannot, *unbuilt* where transformers itself does not build or run it at toy size, and
*wrong* where a gradient differs. There must be none of the last. Each type runs in a process of its own.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.examine import examine
from benchmarks.families import registered_types
from benchmarks.family_table import Family, page, summary

LIMIT_S = 120.0


def main() -> int:
    """Examine and print; 1 if a family is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", metavar="TYPE", help="default: all that are registered")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help="where to write the table as Markdown")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    families = []
    for family in examine_all(options.types, options.processes):
        families.append(family)
        sys.stderr.write(f"{family.model_type:<28}{family.status:<14}{family.reason[:80]}\n")
    found = summary(families)
    if options.write:
        options.write.write_text(page(families, found), encoding="utf-8")
    if options.json:
        print(json.dumps(found | {"families": [asdict(family) for family in families]}))
    else:
        for name, value in found.items():
            print(f"{name:<24}{value}")
    return int(found["families_wrong"] > 0)


def examine_all(types: list[str], processes: int = 1) -> Iterator[Family]:
    """Examine types, all that are registered if none is named, in their order."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["benchmarks.examine"])
    if not types:
        types = registered_types()
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(lambda model_type: _apart(server, model_type), types)


def _apart(server: Any, model_type: str) -> Family:
    """Examine one type in a process of its own, which may crash or hang."""
    here, there = server.Pipe(duplex=False)
    process = server.Process(target=_send, args=(model_type, there), daemon=True)
    process.start()
    there.close()
    try:
        if here.poll(LIMIT_S):
            answer: Family = here.recv()
            return answer
        return Family(model_type, "unbuilt", reason=f"not done in {LIMIT_S:.0f} s")
    except EOFError:
        return Family(model_type, "unbuilt", reason="its process died")
    finally:
        process.kill()
        process.join()


def _send(model_type: str, there: Connection) -> None:
    there.send(examine(model_type))


if __name__ == "__main__":
    sys.exit(main())
