"""How a request is known again: its Idempotency-Key, or that it says it is a retry, and its body."""

import hashlib
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header
from pydantic import BaseModel

from api.auth import PrincipalDep
from core.store.replays import Request

LONGEST_KEY = 255


@dataclass(frozen=True, slots=True)
class Sender:
    """What the headers of a request say of its being sent again."""

    key_id: str
    name: str | None
    is_retry: bool

    def sent(self, body: BaseModel) -> Request:
        """The whole request."""
        canonical = body.model_dump_json(exclude_unset=True).encode()
        return Request(
            key_id=self.key_id,
            body_sha256=hashlib.sha256(canonical).hexdigest(),
            name=self.name,
            is_retry=self.is_retry,
        )


async def _sender(
    principal: PrincipalDep,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=LONGEST_KEY)] = None,
    x_stainless_retry_count: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Sender:
    return Sender(principal.key_id, idempotency_key, (x_stainless_retry_count or "0") != "0")


SenderDep = Annotated[Sender, Depends(_sender)]
