"""A turn's broadcast as an answer: the whole turn once it ends or waits, or its events as they happen."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from turnstone.domain.events import TurnAwaitsInput, TurnCompleted, TurnFailed
from turnstone.domain.turns import Turn, TurnStatus
from turnstone.http.errors import RETRY_SOON, detail_reply, failure_reply
from turnstone.http.routes import Reply, wire_json
from turnstone.http.sse import heard
from turnstone.services.broadcast import TurnBroadcast


async def outcome(broadcast: TurnBroadcast, encode: Callable[[Turn], bytes] = wire_json) -> Reply:
    """Return the whole answer for a turn, once it has ended or waits for its client."""
    try:
        async with aclosing(heard(broadcast)) as told:
            async for news in told:
                for event, *_ in news:
                    match event:
                        case TurnCompleted(turn=turn):
                            return _with_status(Reply(encode(turn)), TurnStatus.COMPLETED)
                        case TurnAwaitsInput(turn=turn):
                            return _with_status(Reply(encode(turn)), TurnStatus.AWAITING_INPUT)
                        case TurnFailed(failure=failure, status=status):
                            return _with_status(failure_reply(failure), status)
                        case _:
                            continue
    except asyncio.CancelledError:
        turn_id = broadcast.ref.turn_id
        again = f"turn {turn_id!r} goes on later: read it, or send the request again with the same Idempotency-Key"
        return detail_reply(503, f"the server stops; {again}", RETRY_SOON)
    return detail_reply(500, "internal server error")


def _with_status(answer: Reply, status: str | None) -> Reply:
    """Return the answer with the header that tells how the turn stands, if that is settled."""
    return answer if status is None else answer._replace(headers={**answer.headers, "x-turn-status": str(status)})
