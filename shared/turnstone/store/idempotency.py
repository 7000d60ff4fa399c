"""What was answered under an Idempotency-Key, kept for a day."""

from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json, to_json

from turnstone.domain.attempts import Attempt
from turnstone.domain.errors import Conflict, IdempotencyMismatch
from turnstone.ports import Absent, Get, Put, Record, RevIs
from turnstone.store.keys import idempotency_key

KEPT = timedelta(hours=24)


def get_remembered(tenant: str, attempt: Attempt) -> tuple[Get, ...]:
    """Return the read that finds an earlier answer, none if the request has no key."""
    return (Get(idempotency_key(tenant, attempt.key)),) if attempt.key else ()


def put_remembered(
    tenant: str, attempt: Attempt, answer: dict[str, str], now: datetime, found: Record | None = None
) -> tuple[Put, ...]:
    """Return the write that keeps the answer, none if the request has no key; `found` is a record that is over."""
    if attempt.key is None:
        return ()
    body = to_json({"fingerprint": attempt.fingerprint, "answer": answer})
    return (
        Put(
            key=idempotency_key(tenant, attempt.key),
            body=body,
            attributes={"ttl": int((now + KEPT).timestamp())},
            when=(RevIs(found.rev) if found else Absent(),),
        ),
    )


def answer_in(record: Record | None, attempt: Attempt, now: datetime) -> dict[str, str] | None:
    """Return what was answered before, None if nothing was or it is over. Raises IdempotencyMismatch."""
    if record is None or int(record.attributes["ttl"]) <= now.timestamp():
        return None
    kept: dict[str, Any] = from_json(record.body)
    if kept["fingerprint"] != attempt.fingerprint:
        raise IdempotencyMismatch
    answer: dict[str, str] = kept["answer"]
    return answer


def found_under_key(conflict: Conflict, tenant: str, attempt: Attempt) -> Record | None:
    """Return the record the key already has, if that is what the write failed on; else raise the conflict."""
    if attempt.key is None or conflict.key != idempotency_key(tenant, attempt.key) or conflict.found is None:
        raise conflict
    found: Record = conflict.found
    return found
