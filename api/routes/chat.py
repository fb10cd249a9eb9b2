"""/v1/chat/completions: try a model out, before and after it was trained. For a smoke test."""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from api.auth import SubmitDep
from api.chat import replies_to
from api.chat_request import CreateChat
from api.errors import ApiError, envelope
from api.service import Service, ServiceDep
from api.views.chat import (
    ChatChoiceView,
    ChatMessageView,
    ChatView,
    ChunkChoiceView,
    ChunkView,
    DeltaView,
    UsageView,
    sent,
)
from core.models.catalog import UnknownModel
from core.spec.chat import Begun, ChatReply, Ended, Said
from core.store.errors import NotFound
from core.store.ids import new_id
from core.store.keys import Principal
from core.store.models import TUNED_PREFIX, find_model

router = APIRouter(prefix="/chat", tags=["Chat"])

STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
Replies = AsyncGenerator[ChatReply, None]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What all chunks of an answer share."""

    id: str
    created: int
    model: str

    def chunk(self, delta: DeltaView, ended: Ended | None = None) -> str:
        choice = ChunkChoiceView(
            delta=delta, finish_reason=None if ended is None else ended.finish_reason
        )
        return self._view([choice]).event()

    def usage(self, usage: UsageView) -> str:
        return self._view([]).model_copy(update={"usage": usage}).event()

    def _view(self, choices: list[ChunkChoiceView]) -> ChunkView:
        return ChunkView(id=self.id, created=self.created, model=self.model, choices=choices)


@router.post(
    "/completions",
    response_model=ChatView,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def create(
    request: Request, service: ServiceDep, principal: SubmitDep, body: CreateChat
) -> Response | ChatView:
    """An answer to a conversation, whole or as server-sent events."""
    if not service.settings.chat:
        raise ApiError(
            403,
            "models cannot be talked to here",
            code="chat_not_enabled",
            hint="whoever runs the service sets CASTALIA_CHAT=1 and starts `castalia worker --queue chat`",
        )
    await run_in_threadpool(_require_model, service, principal, body.model)
    answer = _Answer(new_id("chatcmpl-"), int(time.time()), body.model)
    order = body.order(principal.project_id)
    replies = replies_to(service, order, answer.id, request.is_disconnected)
    begun = await anext(replies, None)  # what is refused is refused before a stream begins
    if not isinstance(begun, Begun):
        return Response(status_code=400)  # the client hung up: nobody reads it
    if not body.stream:
        return await _whole(answer, begun, replies)
    told = _told(answer, begun, replies, wants_usage=body.wants_usage)
    return StreamingResponse(told, media_type="text/event-stream", headers=STREAM_HEADERS)


def _require_model(service: Service, principal: Principal, name: str) -> None:
    try:
        if name.startswith(TUNED_PREFIX):
            with service.database.begin() as session:
                find_model(session, principal.project_id, name)
        else:
            service.catalog.path(name)
    except (NotFound, UnknownModel) as error:
        raise ApiError(404, str(error), code="model_not_found", param="model") from None


async def _whole(answer: _Answer, begun: Begun, replies: Replies) -> Response | ChatView:
    text = ""
    async for reply in replies:
        if isinstance(reply, Said):
            text += reply.text
        elif isinstance(reply, Ended):
            choice = ChatChoiceView(
                message=ChatMessageView(content=text), finish_reason=reply.finish_reason
            )
            return ChatView(
                id=answer.id,
                created=answer.created,
                model=answer.model,
                choices=[choice],
                usage=UsageView.of(begun.prompt_tokens, reply.completion_tokens),
            )
    return Response(status_code=400)


async def _told(
    answer: _Answer, begun: Begun, replies: Replies, *, wants_usage: bool
) -> AsyncIterator[str]:
    yield answer.chunk(DeltaView(role="assistant", content=""))
    try:
        async for reply in replies:
            if isinstance(reply, Said):
                yield answer.chunk(DeltaView(content=reply.text))
            elif isinstance(reply, Ended):
                yield answer.chunk(DeltaView(), reply)
                if wants_usage:
                    counted = UsageView.of(begun.prompt_tokens, reply.completion_tokens)
                    yield answer.usage(counted)
    except ApiError as error:  # The status was sent long ago; the client raises what it reads.
        yield sent(json.loads(bytes(envelope(error).body)))
    yield "data: [DONE]\n\n"
