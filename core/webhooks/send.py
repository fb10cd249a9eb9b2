"""One POST to one webhook: to addresses that were looked at, within a limit, and no further.

The connection goes to an address, not to a name; Host, SNI and the certificate's check keep the name. No
redirect is followed, no proxy of the environment is used, and of the answer only status and Retry-After are
read. The limit holds for all of it: a receiver that answers a byte at a time cannot hold a sender longer.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from ssl import SSLContext

import httpx

from core.spec.webhook import WebhookEvent
from core.webhooks.addresses import AllowList
from core.webhooks.schedule import asked_wait_s
from core.webhooks.signature import signed_headers
from core.webhooks.target import Refused, Resolver, Target, system_addresses, target_of

LIMIT_S = 20.0
CONNECT_LIMIT_S = 5.0
GONE = 410
LONGEST_PROBLEM = 300

Heard = tuple[int, str | None]
"""A status, and what Retry-After said."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a POST: a ``status``, or a ``problem`` that kept it from having one."""

    status: int | None = None
    retry_after_s: float | None = None
    problem: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and httpx.codes.is_success(self.status)

    @property
    def gone(self) -> bool:
        """Whether the receiver wants nothing any more."""
        return self.status == GONE


@cache
def public_authorities() -> SSLContext:
    """Certificates are checked as httpx does; SSL_CERT_FILE adds an authority of one's own."""
    return httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends events. ``resolve`` and ``tls`` are those of the system unless given."""

    allow: AllowList = field(default_factory=AllowList)
    limit_s: float = LIMIT_S
    resolve: Resolver = system_addresses
    tls: SSLContext | None = None

    def check(self, url: str) -> None:
        """Raises Refused if nothing would be sent to ``url`` now."""
        target_of(url, self.allow, self.resolve)

    def send(self, url: str, event: WebhookEvent, secrets: Sequence[str], now: datetime) -> Answer:
        """POST the event, signed at ``now``. Never raises for what the other side does."""
        try:
            target = target_of(url, self.allow, self.resolve)
        except Refused as error:
            return Answer(problem=f"url {error}")
        headers = signed_headers(event, secrets, int(now.timestamp()))
        try:
            status, retry_after = asyncio.run(self._post(target, headers, event.body))
        except TimeoutError:
            return Answer(problem=f"no answer within {self.limit_s:g} s")
        except httpx.HTTPError as error:
            told = f"{type(error).__name__}: {error}"
            return Answer(problem=told[:LONGEST_PROBLEM])
        return Answer(status, asked_wait_s(status, retry_after, now))

    async def _post(self, target: Target, headers: dict[str, str], body: bytes) -> Heard:
        client = httpx.AsyncClient(
            verify=self.tls or public_authorities(),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(self.limit_s, connect=CONNECT_LIMIT_S),
            headers={"user-agent": "Castalia", "content-type": "application/json", **headers},
        )
        async with asyncio.timeout(self.limit_s), client:
            *others, last = target.addresses
            for address in others:
                try:
                    return await _post_to(client, target, address, body)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    continue  # the next address of the same host may answer
            return await _post_to(client, target, last, body)


async def _post_to(client: httpx.AsyncClient, target: Target, address: str, body: bytes) -> Heard:
    request = client.build_request(
        "POST",
        target.url.copy_with(host=address),
        content=body,
        headers={"host": target.url.netloc.decode("ascii")},
        extensions={"sni_hostname": target.url.raw_host.decode("ascii").rstrip(".")},
    )
    response = await client.send(request, stream=True)
    await response.aclose()
    return response.status_code, response.headers.get("retry-after")
