"""What a run says, as lines of ``events.jsonl``: appended, flushed, and read by whoever follows."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from core.spec.errors import JobError
from core.spec.events import (
    Evaluated,
    Failed,
    Finished,
    Noted,
    RunEvent,
    Saved,
    Started,
    StepDone,
    Stopped,
)
from core.spec.file_read import FileRead
from core.spec.run import EVENTS_FILE


class Journal:
    """Appends events to a run directory. ``clock`` gives unix seconds.

    ``say`` is told what people may want to know before the first step, a line a fact. Half a line, left by a
    run that was killed or whose disk was full, is cut off.
    """

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        path = directory / EVENTS_FILE
        if path.exists():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self._file = path.open("a", encoding="utf-8")
        self._clock = clock
        self._say = say

    def close(self) -> None:
        """No more events."""
        self._file.close()

    def started(
        self,
        step: int,
        total_steps: int,
        rows: int,
        layers: dict[str, int],
        files: Sequence[FileRead] = (),
    ) -> None:
        """The first step is next."""
        event = Started(
            at=self._clock(),
            step=step,
            total_steps=total_steps,
            rows=rows,
            layers=layers,
            files=[*files],
        )
        self._write(event)
        self._say(f"info  {event.words}")

    def note(
        self,
        code: str,
        message: str,
        *,
        level: Literal["info", "warn"] = "warn",
        **data: float | str,
    ) -> None:
        """Something was chosen, or (a warning) dropped, cut or done otherwise than one might think."""
        self._write(Noted(at=self._clock(), level=level, code=code, message=message, data=data))
        self._say(f"{level:<5} {message}")

    def step_done(
        self,
        step: int,
        total_steps: int,
        *,
        trained_tokens: int,
        metrics: dict[str, float],
        seconds_left: float,
    ) -> None:
        """One optimizer step is done."""
        self._write(
            StepDone(
                at=self._clock(),
                step=step,
                total_steps=total_steps,
                trained_tokens=trained_tokens,
                metrics=metrics,
                seconds_left=seconds_left,
            )
        )

    def evaluated(self, step: int, metrics: dict[str, float]) -> None:
        """The validation file was measured."""
        self._write(Evaluated(at=self._clock(), step=step, metrics=metrics))

    def saved(
        self, step: int, path: str, metrics: dict[str, float], best_step: int | None = None
    ) -> None:
        """A whole checkpoint lies at ``path``, relative to the run directory."""
        now = self._clock()
        self._write(Saved(at=now, step=step, path=path, metrics=metrics, best_step=best_step))

    def finished(self, step: int, trained_tokens: int, metrics: dict[str, float]) -> None:
        """All steps are done."""
        self._write(
            Finished(at=self._clock(), step=step, trained_tokens=trained_tokens, metrics=metrics)
        )

    def stopped(self, step: int) -> None:
        """The run was asked to stop, and did."""
        self._write(Stopped(at=self._clock(), step=step))

    def failed(self, error: JobError) -> None:
        """The run cannot go on."""
        self._write(Failed(at=self._clock(), error=error))

    def _write(self, event: RunEvent) -> None:
        self._file.write(event.model_dump_json() + "\n")
        self._file.flush()
