"""What a client may ask of webhook endpoints, and one try of one, with an answer at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from api.agreement import invalid
from api.errors import ApiError
from api.requests import WITHOUT_NUL
from core.spec.tree import Spec
from core.spec.webhook import DEFAULT_TYPES, EventType, WebhookEvent
from core.store.ids import new_id
from core.webhooks.send import Sender
from core.webhooks.target import LONGEST_URL, Refused

Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=WITHOUT_NUL)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_URL)]
EventTypes = Annotated[list[EventType], Field(min_length=1, max_length=100)]

SAMPLE_JOB = "ftjob-sample"
AT_ONCE = 4
_places = threading.BoundedSemaphore(AT_ONCE)


class CreateEndpoint(Spec):
    """Body of POST /v1/webhook_endpoints."""

    name: Name
    url: Url = Field(description="https://…; where the operator allows the host, also http://.")
    event_types: EventTypes = Field(list(DEFAULT_TYPES), description="As GET webhook_event_types.")


class UpdateEndpoint(Spec):
    """Body of POST /v1/webhook_endpoints/{id}: any of them. A url opens a disabled endpoint again."""

    name: Name | None = None
    url: Url | None = None
    event_types: EventTypes | None = None

    def changes(self) -> dict[str, Any]:
        """What was given."""
        given = self.model_dump(exclude_none=True)
        if "event_types" in given:
            given["event_types"] = unique(given["event_types"])
        return given


class RotateSecret(Spec):
    """Body of POST /v1/webhook_endpoints/{id}/rotate_secret."""

    keep_old_secret_active_for_24_hours: bool = False


class TryEndpoint(Spec):
    """Body of POST /v1/webhook_endpoints/{id}/test."""

    event_type: EventType


def unique(event_types: list[str]) -> list[str]:
    """Each type once, in the order in which they were given."""
    return list(dict.fromkeys(event_types))


def check_url(sender: Sender, url: str) -> None:
    """Raises ApiError if nothing would be sent to ``url``, and if too many are being looked up."""
    try:
        with _place():
            sender.check(url)
    except Refused as error:
        raise invalid("url", str(error)) from None


def status_of_try(sender: Sender, url: str, event_type: str, secrets: tuple[str, ...]) -> int:
    """What the receiver answers to a sample that is signed as any event is.

    Raises ApiError where there is no answer, and if too many are being waited for.
    """
    now = datetime.now(UTC)
    event = WebhookEvent(new_id("evt_"), event_type, int(now.timestamp()), {"id": SAMPLE_JOB})
    with _place():
        answer = sender.send(url, event, secrets, now)
    if answer.status is None:
        raise ApiError(
            400,
            f"the endpoint did not answer: {answer.problem}",
            code="webhook_not_delivered",
            param="url",
            hint="look at the receiver; real events would be sent again later",
        )
    return answer.status


@contextmanager
def _place() -> Iterator[None]:
    """One of few: slow names and slow receivers must not take the threads of all other requests."""
    if not _places.acquire(blocking=False):
        message = f"{AT_ONCE} webhook endpoints are being looked up or tried already"
        raise ApiError(429, message, code="webhooks_busy", headers={"retry-after": "2"})
    try:
        yield
    finally:
        _places.release()
