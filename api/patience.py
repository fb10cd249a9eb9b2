"""Whoever holds a connection must move: no head comes drop by drop, no body or reader stands still.

uvicorn waits for all of these without end. The one idea: each connection is looked at in turns of
``patience_s``, and is ended if nothing came of a whole turn: no request was completed by its head, less of a
body came than ``slowest_bytes_s`` allows, or less of an answer was taken. What waits for us is never ended: a
body that we have stopped reading, an answer that we have not written yet.
"""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.errors import ApiError, envelope
from api.hygiene import SECURITY_HEADERS
from core.store.ids import new_id


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 that ends what stands still, and whose own refusals are the envelope too."""

    patience_s: ClassVar[float]
    slowest_bytes_s: ClassVar[float]

    _turn: asyncio.TimerHandle | None = None
    _seen_scope: object = None  # the newest request at the last look
    _awaited_head = True
    _heard_bytes = 0
    _held_back = False
    _unsent_bytes = 0
    _sending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin to look."""
        super().connection_made(transport)
        self._turn = self.loop.call_later(self.patience_s, self._next_turn)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._turn is not None:
            self._turn.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        self._heard_bytes += len(data)
        super().data_received(data)

    def resume_writing(self) -> None:
        """Enough was taken for more to be written."""
        self._sending = False
        super().resume_writing()

    def look(self) -> None:
        """End the connection if nothing came of the turn that ends now; else begin another."""
        unsent = self.transport.get_write_buffer_size()
        stuck_closing = self.transport.is_closing() and unsent > 0
        if (self._sending or stuck_closing) and self._unsent_bytes - unsent < self._least_bytes:
            return self.transport.abort()
        same = self.scope is self._seen_scope and self._waits_for_head is self._awaited_head
        if same and self._owes_us_something():
            return self._answer(408, "the request did not come within its time", "request_too_slow")
        self._seen_scope, self._awaited_head = self.scope, self._waits_for_head
        self._heard_bytes = 0
        self._held_back = self.flow.read_paused
        self._sending = self.flow.write_paused or (self._answered and unsent > 0)
        self._unsent_bytes = unsent
        return None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._answer(400, msg, "invalid_http")

    @property
    def _least_bytes(self) -> float:
        return self.slowest_bytes_s * self.patience_s

    def _next_turn(self) -> None:
        self._turn = self.loop.call_later(self.patience_s, self._next_turn)
        self.look()

    @property
    def _answered(self) -> bool:
        """Whether nothing is asked of us; the end of an answer may still wait to be taken."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _waits_for_head(self) -> bool:
        taken = self.transport.get_write_buffer_size() == 0
        return self._answered and taken and self.conn.their_state is h11.IDLE

    def _owes_us_something(self) -> bool:
        """Whether a head is missing, or a body that we are willing to read stands still."""
        if self._waits_for_head:
            return True
        in_body = self.conn.their_state is h11.SEND_BODY
        told_to_wait = self.cycle.waiting_for_100_continue
        willing = not (self._held_back or self.flow.read_paused or told_to_wait)
        return in_body and willing and self._heard_bytes < self._least_bytes

    def _answer(self, status: int, message: str, code: str) -> None:
        """Answer in the application's place, if nobody has begun to, and hang up."""
        to_head = False
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            to_head = self.scope["method"] == "HEAD"
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return self.transport.close()
        answer = envelope(ApiError(status, message, code=code))
        ours = {**SECURITY_HEADERS, "x-request-id": new_id("req_"), "connection": "close"}
        headers = [*answer.raw_headers, *((n.encode(), v.encode()) for n, v in ours.items())]
        response = h11.Response(status_code=status, headers=headers, reason=b"")
        body = h11.Data(data=b"" if to_head else bytes(answer.body))
        for event in (response, body, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        return self.transport.close()


def patient(patience_s: float, slowest_bytes_s: float) -> type[PatientProtocol]:
    """The protocol with these limits, as uvicorn wants to be given it."""
    limits = {"patience_s": patience_s, "slowest_bytes_s": slowest_bytes_s}
    return type("PatientProtocol", (PatientProtocol,), limits)
