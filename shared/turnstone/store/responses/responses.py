"""Responses in the store: the request of each beside its turn, and a small projection in the list of its tenant.

The request is in the partition of its session and is removed with it. The projection has a time to live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from turnstone.domain.errors import NotFound
from turnstone.domain.responses.addresses import RESPONSE_KIND, response_id
from turnstone.domain.responses.requests import ListedResponse, SentRequest
from turnstone.ports.records import Absent, Delete, Get, Put, RevIs
from turnstone.store.keys.responses import (
    all_requests,
    conversation_key,
    request_key,
    response_list,
    response_list_key,
)
from turnstone.store.layout.contention import retried
from turnstone.store.layout.listing import ListEntry, entries_of, entry_of, put_entry
from turnstone.store.responses.attempts import earlier_attempt
from turnstone.store.responses.conversations import put_items

if TYPE_CHECKING:
    from datetime import datetime

    from turnstone.domain.refs import SessionRef, TurnRef
    from turnstone.domain.turns.attempts import Attempt
    from turnstone.ports.records import Record
    from turnstone.ports.storage import RangeStore


class ResponseStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def sent(self, ref: TurnRef) -> SentRequest:
        """Return the request of the turn's response. Raises NotFound, ContentLost."""
        return request_in(self._store.get(request_key(ref)), ref)

    def begun_before(self, tenant: str, attempt: Attempt, now: datetime) -> TurnRef | None:
        """Return the turn of the response that an earlier attempt of a first request began, None without one."""
        return earlier_attempt(self._store, tenant, attempt, now)

    def listed(self, tenant: str, turn_id: str, now: datetime) -> TurnRef | None:
        """Return the turn of that id whose response is in the tenant's list, None without one."""
        record = self._store.get(response_list_key(tenant, turn_id))
        if record is None or now.timestamp() >= int(record.attributes["ttl"]):
            return None
        return listed_in(entry_of(record)).ref_in(tenant)

    def delete(self, ref: TurnRef) -> None:
        """Hide the response from every reader, and keep its items for conversations.

        Raises:
            NotFound: the response.
            ContentLost: its request can't be read.
            StoreUnavailable: the store is, or approvals are noted faster.
        """
        retried(partial(self._delete, ref), "other requests use this response; try again")

    def is_without_responses(self, ref: SessionRef) -> bool:
        """Return whether the session has no response, and is no conversation."""
        (conversation,), (others,) = self._store.gather(
            [Get(conversation_key(ref))], [all_requests(ref)._replace(limit=1)]
        )
        return conversation is None and not others.records

    def _delete(self, ref: TurnRef) -> None:
        """Remove the request and its list entry. Raises NotFound, Conflict where an approval was noted in between."""
        sent = request_in(self._store.get(request_key(ref)), ref).model_copy(update={"echo": {}})
        self._store.write(
            [
                Delete(request_key(ref), (RevIs(sent.rev),)),
                Delete(response_list_key(ref.tenant, ref.turn_id)),
                put_items(ref, sent),
            ]
        )

    def entries(self, tenant: str, after: str | None, limit: int, *, is_reverse: bool) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list after that position, read lazily."""
        return entries_of(self._store, response_list(tenant), after, limit, is_reverse=is_reverse)


def get_request(ref: TurnRef) -> Get:
    """Return the read of the request of the turn's response."""
    return Get(request_key(ref))


def request_in(record: Record | None, ref: TurnRef) -> SentRequest:
    """Return the request in the record. Raises NotFound without one."""
    if record is None:
        raise NotFound(RESPONSE_KIND, response_id(ref))
    return SentRequest.model_validate_json(record.body).model_copy(update={"rev": record.rev})


def put_response(ref: TurnRef, sent: SentRequest, listed: ListedResponse) -> tuple[Put, Put]:
    """Return the writes of a new response beside its turn."""
    shown = listed.model_dump(mode="json", exclude={"stamp"})
    entry = put_entry(response_list_key(ref.tenant, ref.turn_id), shown, listed.stamp)
    return (
        Put(request_key(ref), sent.model_dump_json(exclude_defaults=True).encode(), when=(Absent(),)),
        entry._replace(attributes={"ttl": int(listed.ends_at.timestamp())}),
    )


def put_approved(ref: TurnRef, sent: SentRequest, approved: Iterable[str]) -> Put:
    """Return the write that notes further approved requests of the response, on condition that nothing changed it."""
    noted = sent.model_copy(update={"approved": (*sent.approved, *approved)})
    return Put(request_key(ref), noted.model_dump_json(exclude_defaults=True).encode(), when=(RevIs(sent.rev),))


def listed_in(entry: ListEntry) -> ListedResponse:
    """Return the response of a list entry."""
    return ListedResponse.model_validate({**entry.fields, "stamp": entry.stamp})
