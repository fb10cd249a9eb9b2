"""The compatibility list, item by item, with whatever version of `openai` this Python has.

    python scenario.py < case.json

The case says where the service is, what stands ready there, and which calls this version lacks: for an item
of those, the call must really be missing. Prints a line of JSON an item: {"item", "ok", "detail"}.
"""

import inspect
import json
import sys
import traceback
from typing import Any

import failures
import files
import following
import graders
import jobs
import webhooks
from case import Case

ROOMS = (files, jobs, following, graders, failures, webhooks)
ITEMS = {name: check for room in ROOMS for name, check in room.ITEMS.items()}


def main() -> None:
    """Go through all items; one that fails does not keep the next from being tried."""
    case = Case(json.load(sys.stdin))
    for name, check in ITEMS.items():
        call = case.told["absent"].get(name)
        try:
            if call is None:
                check(case)
            else:
                assert not exists(case.client, call), f"{call} is there; take it off the table"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the item found
            say(name, ok=False, detail=where(error))
        else:
            say(name, ok=True, detail=None if call is None else f"this version has no {call}")


def exists(client: Any, call: str) -> bool:
    """Whether the client has a call of this dotted name, or `call(argument)`."""
    call, _, argument = call.partition("(")
    found = client
    for name in call.split("."):
        found = getattr(found, name, None)
    if found is None or not argument:
        return found is not None
    return argument.removesuffix(")") in inspect.signature(found).parameters


def where(error: Exception) -> str:
    """The error, and the line of the item that met it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "site-packages" not in frame.filename]
    return f"{type(error).__name__}: {error} [{ours[-1].line}, line {ours[-1].lineno}]"


def say(item: str, *, ok: bool, detail: str | None) -> None:
    """One line."""
    sys.stdout.write(json.dumps({"item": item, "ok": ok, "detail": detail}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
