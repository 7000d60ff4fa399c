"""Answers under idempotency keys, kept for a day."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict, IdempotencyMismatch
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, Get, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.contention import ReadAgain, retried
from turnstone.store.layout.keys import idempotency_key

KEPT = timedelta(hours=24)


def get_remembered(scope: str | SessionRef, attempt: Attempt) -> tuple[Get, ...]:
    """Return the read of an earlier answer, none without a key.

    A tenant's answers outlive their resources; those of a session are deleted with it.
    """
    return (Get(idempotency_key(scope, attempt.key)),) if attempt.key else ()


def put_remembered(
    scope: str | SessionRef, attempt: Attempt, answer: dict[str, str], now: datetime, found: Record | None = None
) -> tuple[Put, ...]:
    """Return the write that stores the answer, none without a key; `found` is an expired record."""
    if attempt.key is None:
        return ()
    body = to_json({"fingerprint": attempt.fingerprint, "answer": answer})
    return (
        Put(
            key=idempotency_key(scope, attempt.key),
            body=body,
            attributes={"ttl": int((now + KEPT).timestamp())},
            when=(RevIs(found.rev) if found else Absent(),),
        ),
    )


def answer_in(record: Record | None, attempt: Attempt, now: datetime) -> dict[str, str] | None:
    """Return the earlier answer, None if missing or expired. Raises IdempotencyMismatch."""
    if record is None or int(record.attributes["ttl"]) <= now.timestamp():
        return None
    kept: dict[str, Any] = from_json(record.body)
    if kept["fingerprint"] != attempt.fingerprint:
        raise IdempotencyMismatch
    answer: dict[str, str] = kept["answer"]
    return answer


class Once(NamedTuple):
    """A creation that is done once, however often its request is repeated."""

    tenant: str
    attempt: Attempt
    answer: dict[str, str]
    now: datetime

    def write(self, store: RangeStore, writes: Sequence[Operation]) -> dict[str, str]:
        """Apply the writes and return the answer, or return the answer to an earlier attempt.

        Raises:
            IdempotencyMismatch: the key was used for another body.
            Conflict: one of the writes conflicts.
        """
        found: Record | None = None

        def write() -> dict[str, str]:
            nonlocal found
            remembered = put_remembered(self.tenant, self.attempt, self.answer, self.now, found)
            try:
                store.write([*writes, *remembered])
            except Conflict as conflict:
                if not remembered or conflict.key != remembered[0].key:
                    raise
                found = conflict.found
                if before := answer_in(found, self.attempt, self.now):
                    return before
                raise ReadAgain from conflict
            return self.answer

        return retried(write, "the same request is being made too often at once, try again", on=(ReadAgain,))

    def earlier(self, store: RangeStore) -> dict[str, str] | None:
        """Return the answer to an earlier attempt, None without one. Raises IdempotencyMismatch."""
        gets = get_remembered(self.tenant, self.attempt)
        return answer_in(store.get(gets[0].key), self.attempt, self.now) if gets else None
