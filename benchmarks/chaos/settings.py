"""How patient a service under chaos is: its leases are short, so that rounds are."""

from pathlib import Path

LEASE_S, SWEEP_S, ORPHAN_S = 4.0, 0.5, 20.0
HASTY = {
    "CASTALIA_LEASE_S": f"{LEASE_S:g}",
    "CASTALIA_SWEEP_S": f"{SWEEP_S:g}",
    "CASTALIA_POLL_S": "0.1",
    "CASTALIA_RING_AGAIN_S": "2",
    "CASTALIA_STOP_GRACE_S": "20",
    "CASTALIA_ORPHAN_BLOB_S": f"{ORPHAN_S:g}",
    "CASTALIA_MAX_ATTEMPTS": "1000",
    "CASTALIA_RETRY_FIRST_S": "0.2",
    "CASTALIA_RETRY_LONGEST_S": "2",
}
"""Short leases, so that rounds are short; and no job is given up because of what we do to it."""
EVERYWHERE = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}

START_LIMIT_S = 120.0
JANITOR_STARTS_S = 20.0
WORKERS = ("worker-all", "worker-train")
"""Celery tells workers of one machine apart by their queues' name, so they are given different ones."""
