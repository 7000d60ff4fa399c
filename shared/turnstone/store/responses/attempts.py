"""Attempts: the turns of a session's first response by the fingerprints of their requests, for those sent again.

A record for each turn: equal requests do not write to the same one. The next response of a session needs none, because
the session's header has the fingerprint of its newest request.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from turnstone.domain.refs import TurnRef
from turnstone.ports.records import Put
from turnstone.store.keys.responses import attempt_key, newest_attempt

if TYPE_CHECKING:
    from datetime import datetime

    from turnstone.domain.turns.attempts import Attempt
    from turnstone.ports.storage import RangeStore

KEPT = timedelta(hours=1)


def put_attempt(attempt: Attempt, now: datetime, ref: TurnRef) -> tuple[Put, ...]:
    """Return the write of the attempt that begins the turn; none with a key, from which the session's id is made."""
    if attempt.key is not None:
        return ()
    names = {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}
    ttl = int((now + KEPT).timestamp())
    return (Put(attempt_key(ref, attempt.fingerprint), to_json(names), {"ttl": ttl}),)


def earlier_attempt(store: RangeStore, tenant: str, attempt: Attempt, now: datetime) -> TurnRef | None:
    """Return the newest turn that an equal request began within the last hour, None for a request without a retry."""
    if not attempt.is_retry or attempt.key is not None:
        return None
    for record in store.range(newest_attempt(tenant, attempt.fingerprint)).records:
        if now.timestamp() < int(record.attributes["ttl"]):
            return TurnRef(tenant=tenant, **from_json(record.body))
    return None
