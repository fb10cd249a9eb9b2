"""The supervisor behind `castalia up`: starts children in order, keeps them up, ends them all.

The one idea: one loop over one list. Each turn takes a single step for each child (start it, see
it ready, notice its crash) and goes no further than the first that has never been ready; that is
the whole of the start order. Stopping walks the same list backwards.

It is single-threaded and owns the signals of its process while it runs. Should it be killed, the
guard (castalia.guard) ends the children in its place.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from castalia.child import Child, Life
from castalia.guard import Guard

TURN_S = 0.1
STEADY_S = 1.0  # a child without a readiness check is ready after this much life
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0
FORGIVEN_AFTER_S = 60.0
FAILURES_BEFORE_GIVING_UP = 5
LINES_SHOWN = 10

STOPPED, GAVE_UP, FORCED = 0, 1, 130


def delay_after(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row: 1, 2, 4, ... 30."""
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (failures - 1))


def say_on_console(line: str) -> None:
    """Print at once; a terminal that is gone does not keep us from looking after the children."""
    with suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


@dataclass(slots=True)
class _Post:
    """A child and how it fares."""

    child: Child
    log: Path
    life: Life | None = None
    ready: bool = False
    ever_ready: bool = False
    failures: int = 0
    started_at: float = 0.0
    next_start: float = 0.0


class _GaveUpError(Exception):
    """A child failed too often before it was ever ready."""


@dataclass(slots=True)
class Supervisor:
    """Runs `children`; logs go to `logs`/NAME.log, which must be an existing folder.

    `keep_open` are descriptors (the lock of the data folder) that stay open until the last child
    is gone, even when the supervisor is killed. Clock, sleep and console are passed in.
    """

    children: Sequence[Child]
    logs: Path
    keep_open: tuple[int, ...] = ()
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = say_on_console
    _posts: list[_Post] = field(init=False)
    _guard: Guard = field(init=False)
    _wishes_to_stop: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._posts = [_Post(child, self.logs / f"{child.name}.log") for child in self.children]

    def run(self) -> int:
        """Keep the children up until a wish to stop: 0; 1 after giving up; 130 when forced.

        Raises ChildCannotStartError. No child outlives the call, however it ends.
        """
        self._guard = Guard(self.keep_open)
        try:
            with self._signals():
                return self._watch()
        finally:
            self._guard.close()

    def request_stop(self) -> None:
        """Stop all, each in its grace; called again, kill all at once. The signals call it."""
        self._wishes_to_stop += 1

    def _watch(self) -> int:
        code = STOPPED
        try:
            while not self._wishes_to_stop:
                self._turn()
                self.sleep(TURN_S)
        except _GaveUpError:
            code = GAVE_UP
        finally:
            for post in reversed(self._posts):
                self._stop(post)
        return FORCED if self._forced else code

    @property
    def _forced(self) -> bool:
        return self._wishes_to_stop > 1

    def _turn(self) -> None:
        if not self._guard.alive:
            self._replace_guard()
        for post in self._posts:
            self._step(post)
            if not post.ever_ready:
                return

    def _step(self, post: _Post) -> None:
        now = self.clock()
        if post.life is None:
            if now >= post.next_start:
                post.life = Life(post.child, post.log, self._guard)
                post.started_at, post.ready = now, False
        elif (end := post.life.end()) is not None:
            self._failed(post, post.life, end)
        elif not post.ready:
            self._look_whether_ready(post, post.life, now - post.started_at)

    def _look_whether_ready(self, post: _Post, life: Life, age_s: float) -> None:
        check = post.child.ready
        if check() if check else age_s >= STEADY_S:
            post.ready = post.ever_ready = True
            self._tell(post, "ready", post.child.where)
        elif age_s >= post.child.start_limit_s:
            self._failed(post, life, f"not ready after {post.child.start_limit_s:g} s")

    def _failed(self, post: _Post, life: Life, reason: str) -> None:
        life.bury()
        now = self.clock()
        lived_long = now - post.started_at >= FORGIVEN_AFTER_S
        post.failures = 1 if lived_long else post.failures + 1
        post.life, post.ready = None, False
        if not post.ever_ready and post.failures >= FAILURES_BEFORE_GIVING_UP:
            self._tell(post, "gave up", f"{reason}, {post.failures} times in a row; {post.log}:")
            for line in life.last_lines(LINES_SHOWN):
                self.say(f"    {line}")
            raise _GaveUpError
        delay = delay_after(post.failures)
        post.next_start = now + delay
        last = "".join(f": {line}" for line in life.last_lines(1))
        self._tell(post, "crashed", f"{reason}{last} ({post.log}); again in {delay:g} s")

    def _stop(self, post: _Post) -> None:
        life, post.life = post.life, None
        if life is None:
            return
        if not self._forced:
            life.ask_to_stop()
        deadline = self.clock() + post.child.stop_grace_s
        while life.end() is None and self.clock() < deadline and not self._forced:
            self.sleep(TURN_S)
        ended = life.end() is not None
        life.bury()
        self._tell(post, "stopped" if ended else "killed", "")

    def _replace_guard(self) -> None:
        self._guard.close()
        self._guard = Guard(self.keep_open)
        for post in self._posts:
            if post.life is not None:
                post.life.guard_with(self._guard)

    def _tell(self, post: _Post, event: str, detail: str) -> None:
        width = max(len(child.name) for child in self.children)
        self.say(f"{post.child.name:<{width}}  {event:<8} {detail}".rstrip())

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def wish(*_: object) -> None:
            self.request_stop()

        caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        former = [(number, signal.signal(number, wish)) for number in caught]
        try:
            yield
        finally:
            for number, handler in former:
                signal.signal(number, handler)
