"""How uvicorn serves the application: with limits on patience, and without words about itself."""

from typing import Any

from api.patience import patient
from api.settings import ApiSettings

GRACE_S = 8
"""Open requests, streamed downloads among them, may go on for so long; `up` waits for ten seconds."""


def server_options(settings: ApiSettings) -> dict[str, Any]:
    """Arguments of `uvicorn.run` and `uvicorn.Config`, all but the application and where it listens."""
    return {
        "http": patient(settings.patience_s, settings.slowest_bytes_s),
        "ws": "none",
        "access_log": False,  # `api.middleware.Stamp` writes one
        "log_config": None,
        "server_header": False,
        "timeout_graceful_shutdown": GRACE_S,
    }
