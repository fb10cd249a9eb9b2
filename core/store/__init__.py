"""The store: the database owns the state of every job, and this is the only room that knows SQL.

Functions take the session first and never commit: whoever opened the transaction (`Database.begin`)
closes it. A job's status changes only through `core.store.jobs` and `core.store.attempts`, which write
the event in the same transaction.
"""
