"""A model's answer as an answer over HTTP: an error before its start is a status, a later one an event."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import chain
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from turnstone.domain.errors import SHUTTING_DOWN
from turnstone.domain.errors.code_table import code_of
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.models.inference import Continuations
from turnstone.domain.models.requests import Inferred, TextChunk
from turnstone.http.dialects import Dialect
from turnstone.http.errors import RETRY_SOON, error_reply, log_fields_of, message_of, refusal_reply
from turnstone.http.replies import ModelReply, ModelStreamReply, Reply
from turnstone.http.streams.pieces import cut
from turnstone.http.streams.receiving import received
from turnstone.http.streams.silence import PING, Silence
from turnstone.services.models.answer_stream import NewParts

if TYPE_CHECKING:
    from turnstone.http.answer_encoder import AnswerEncoder

WHOLE = (Inferred, Continuations)


async def answered(
    reply: ModelReply | ModelStreamReply, receive: Receive, dialect: Dialect, about: dict[str, Any]
) -> Reply | AsyncGenerator[bytes]:
    """Return the whole answer, the reply for its error, or the chunks of its stream.

    A stream begins with the answer's first part or, to keep the connection open, after a silence. Later errors are
    added to `about` for the log. Raises ClientDisconnect if the client disconnects before.
    """
    silence = Silence()
    batches = received(reply.answering, receive, silence=silence)
    begins = False
    try:
        async for news in batches:
            if news.error is not None:
                return error_reply(news.error, dialect)
            if isinstance(reply, ModelStreamReply):
                begins = True
                return _chunks(reply.encoder, news, batches, silence, about)
            for part in news.parts:
                if isinstance(part, WHOLE):
                    return Reply(reply.encoder.whole(part))
    except asyncio.CancelledError:
        return refusal_reply(ErrorCode.SERVER_STOPPING, SHUTTING_DOWN, RETRY_SOON, dialect)
    finally:
        if not begins:
            await batches.aclose()
    raise ClientDisconnect


async def _chunks(
    encoder: "AnswerEncoder",
    first: NewParts,
    rest: AsyncGenerator[NewParts],
    silence: Silence,
    about: dict[str, Any],
) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        try:
            for piece in cut(chain((encoder.begun(),), _encoded(encoder, first, about))):
                yield piece
                silence.ends()
            async for news in rest:
                for piece in cut(_encoded(encoder, news, about)):
                    yield piece
                    silence.ends()
                if silence.is_long:
                    yield PING
                    silence.ends()
        except asyncio.CancelledError:
            # only a stopping server cancels
            yield encoder.failed(SHUTTING_DOWN, ErrorCode.SERVER_STOPPING)


def _encoded(encoder: "AnswerEncoder", news: NewParts, about: dict[str, Any]) -> Iterator[bytes]:
    if news.is_empty:
        yield PING
    while news.parts:
        part = news.parts.popleft()
        if isinstance(part, WHOLE):
            yield encoder.ended(part)
        elif isinstance(part, TextChunk):
            yield encoder.encoded(part.text, part.logprobs)
        else:
            yield encoder.encoded(part)
    if news.error is not None:
        about.update(log_fields_of(news.error))
        yield encoder.failed(message_of(news.error), code_of(news.error))
