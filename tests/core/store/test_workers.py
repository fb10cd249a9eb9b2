"""Workers that are there, by their own word, for as long as it is fresh."""

from sqlalchemy import text

from core.store.workers import (
    SILENT_S,
    forget_silent_workers,
    live_workers,
    remove_worker,
    report_worker,
)


def report(database, name: str, size: int) -> None:
    with database.begin() as session:
        report_worker(session, name, version="1", device="cpu", device_bytes=size)


def age(database, name: str, seconds: float) -> None:
    with database.begin() as session:
        query = text(
            "update workers set seen_at = now() - make_interval(secs => :s) where name = :n"
        )
        session.execute(query, {"s": seconds, "n": name})


def live(database) -> dict[str, int]:
    with database.begin() as session:
        return {row.name: row.device_bytes for row in live_workers(session)}


def test_the_last_word_counts(database):
    report(database, "a", 1)
    report(database, "b", 2)
    report(database, "a", 3)
    assert live(database) == {"a": 3, "b": 2}


def test_a_silent_worker_is_not_counted_and_later_forgotten(database):
    report(database, "a", 1)
    age(database, "a", SILENT_S + 1)
    assert live(database) == {}
    with database.begin() as session:
        assert forget_silent_workers(session) == []
    age(database, "a", 10 * SILENT_S + 1)
    with database.begin() as session:
        assert forget_silent_workers(session) == ["a"]


def test_a_worker_that_ends_is_gone(database):
    report(database, "a", 1)
    with database.begin() as session:
        remove_worker(session, "a")
    assert live(database) == {}
