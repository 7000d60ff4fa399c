"""A response that is not stored ends with its process: the client gets a status that makes it repeat the request.

Covers: http/streams/turn_answers, services/streams/broadcast
"""

from __future__ import annotations

import asyncio
import json

import pytest

from turnstone.domain.refs import TurnRef
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import Reply, TurnReply
from turnstone.http.streams.turn_answers import outcome
from turnstone.services.streams.broadcast import Broadcasts

REF = TurnRef(tenant="t", agent_id="responses", session_id="s", turn_id="o")


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_process_that_ends_refuses_with_a_remedy(*, is_cancelled: bool) -> None:
    broadcast = Broadcasts(lambda _: None).begin(REF)

    async def answered() -> Reply:
        answer = asyncio.create_task(outcome(TurnReply(broadcast, dialect=RESPONSES)))
        await asyncio.sleep(0)
        if is_cancelled:
            answer.cancel()
        else:
            broadcast.close()
        return await answer

    reply = asyncio.run(answered())
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (503, "server_stopping")
    assert "send the request again" in error["message"]
    assert "GET" not in error["message"]
