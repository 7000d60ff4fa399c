"""A turn's broadcast as a whole answer, once the turn ends or waits for its client."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import quote

from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import TurnAwaitsInput, TurnCompleted, TurnFailed
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.http.dialects import Dialect
from turnstone.http.errors import RETRY_SOON, failure_reply, refusal_reply
from turnstone.http.replies import Reply, TurnReply
from turnstone.http.streams.receiving import received
from turnstone.services.streams.broadcast import TurnBroadcast

if TYPE_CHECKING:
    from starlette.types import Receive

NOT_STORED = "the server is shutting down, and the response is not stored; send the request again"


async def outcome(reply: TurnReply, base: str = "", receive: "Receive | None" = None) -> Reply:
    """Return the whole answer for a turn, once it has ended or waits for its client.

    Args:
        base: what precedes the API's paths in this request's URL.
        receive: reports that the client has left, which ends a turn that is not stored.

    Raises ClientDisconnect once that is reported.
    """
    broadcast, encode, shows_failures, dialect = reply
    try:
        async with aclosing(received(broadcast, receive)) as batches:
            async for news in batches:
                for numbered in news.numbered:
                    match numbered.event:
                        case TurnCompleted(state=state):
                            return _with_status(Reply(encode(state)), TurnStatus.COMPLETED)
                        case TurnAwaitsInput(state=state):
                            return _with_status(Reply(encode(state)), TurnStatus.AWAITING_INPUT)
                        case TurnFailed(state=TurnState() as state, status=str()) if shows_failures:
                            return Reply(encode(state))
                        case TurnFailed(failure=failure, status=status):
                            failed = failure_reply(_with_url(failure, broadcast.ref, base), dialect)
                            return _with_status(failed, status)
                        case _:
                            continue
    except asyncio.CancelledError:
        return _stopping(broadcast, dialect, base)
    if broadcast.is_stored:
        return refusal_reply(ErrorCode.INTERNAL_ERROR, "internal server error", dialect=dialect)
    if broadcast.is_over:  # before the process is ended
        return _stopping(broadcast, dialect, base)
    from starlette.requests import ClientDisconnect  # after the server, which keeps it from loading more

    raise ClientDisconnect


def _stopping(broadcast: TurnBroadcast, dialect: Dialect, base: str) -> Reply:
    """Return the answer of a stopping server for a turn that has not ended."""
    ref = broadcast.ref
    if not broadcast.is_stored:
        return refusal_reply(ErrorCode.SERVER_STOPPING, NOT_STORED, RETRY_SOON, dialect)
    message = (
        f"the server is shutting down; turn {ref.turn_id!r} continues later: "
        f"read it with GET {base}{turn_path(ref)}, or send the request again with the same Idempotency-Key"
    )
    return refusal_reply(ErrorCode.TURN_CONTINUES, message, RETRY_SOON, dialect)


def turn_path(ref: TurnRef) -> str:
    """Return the path of the turn."""
    agent_id, session_id, turn_id = (quote(name, safe="") for name in (ref.agent_id, ref.session_id, ref.turn_id))
    return f"/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}"


def _with_url(failure: Failure, ref: TurnRef, base: str) -> Failure:
    """Return the failure, with the URL of the turn if another process continues it."""
    if failure.kind != "handed_over":
        return failure
    return failure.model_copy(update={"message": f"{failure.message}: GET {base}{turn_path(ref)}"})


def _with_status(answer: Reply, status: str | None) -> Reply:
    """Return the answer with the turn's status in a header, if it is settled."""
    return answer if status is None else answer._replace(headers={**answer.headers, "x-turn-status": str(status)})
