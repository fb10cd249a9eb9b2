"""What is told to a webhook: that something happened to a job, and which job.

The body holds no more than the job's id, so whoever receives it reads the job with a key of his own, and a
body that is late, doubled or read by somebody else does no harm.
"""

import json
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

DefaultType = Literal[
    "fine_tuning.job.succeeded", "fine_tuning.job.failed", "fine_tuning.job.cancelled"
]
ExtraType = Literal["fine_tuning.job.paused", "fine_tuning.job.checkpoint_saved"]
EventType = Literal[DefaultType, ExtraType]

DEFAULT_TYPES: Final[tuple[EventType, ...]] = get_args(DefaultType)
EVENT_TYPES: Final[tuple[EventType, ...]] = (*DEFAULT_TYPES, *get_args(ExtraType))
"""OpenAI's own first. Its clients know no class for the others, so nobody gets those unasked."""

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the public part of every signing secret


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """One event. ``created_at``: unix seconds; ``data`` has the job's ``id``."""

    id: str
    type: str
    created_at: int
    data: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The same bytes each time that it is sent."""
        document = {
            "id": self.id,
            "object": "event",
            "created_at": self.created_at,
            "type": self.type,
            "data": self.data,
        }
        return json.dumps(document).encode()
