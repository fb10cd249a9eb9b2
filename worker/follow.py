"""Reads what a run says, line by line, while it is being written."""

from pathlib import Path

from core.spec.events import RunEvent, run_event
from core.spec.run import EVENTS_FILE


class Follower:
    """Whole lines that were appended since the last look. ``line`` is the number of the next one."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / EVENTS_FILE
        self._offset = 0
        self.line = 0

    def new_events(self) -> list[RunEvent]:
        """The events of all lines that are complete by now; they count as read."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = [run_event.validate_json(line) for line in whole.splitlines()]
        self.line += len(events)
        return events
