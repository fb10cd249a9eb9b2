"""Reads what a run says, line by line, while it is being written."""

from pathlib import Path

from core.spec.events import RunEvent, run_event
from core.spec.run import BEAT_FILE, EVENTS_FILE, Beat


class Follower:
    """Whole lines in the order in which they were appended. ``line`` is the number of the next one.

    Lines that were looked at are read again until they are marked as taken, because a worker may be told
    to end between the look and the write.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / EVENTS_FILE
        self._beats = directory / BEAT_FILE
        self._offset = 0
        self.line = 0
        self._seen = (0, 0)

    def new_events(self) -> list[RunEvent]:
        """The events of all complete lines that are not taken yet."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        events = [run_event.validate_json(line) for line in whole.splitlines()]
        self._seen = (self._offset + len(whole), self.line + len(events))
        return events

    def beats(self) -> int:
        """How many parts of its work the run has done by its own count; 0 while it has not said."""
        try:
            return Beat.model_validate_json(self._beats.read_bytes()).count
        except FileNotFoundError:
            return 0

    def take(self) -> None:
        """What `new_events` returned last is dealt with."""
        self._offset, self.line = self._seen
