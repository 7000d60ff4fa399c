"""Chat completions stored at the caller's request: store, read, list, change, delete."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.models.stored_completions import CompletionsQuery, StoredCompletion
from turnstone.domain.values.content import Restore
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules
from turnstone.services.access.visible_list import Listing
from turnstone.store.layout.contention import ReadAgain, retried
from turnstone.store.layout.listing import ListEntry
from turnstone.store.models.stored_completions import (
    KIND,
    LARGE_BYTES,
    FoundCompletion,
    ReadCompletion,
    StoredCompletionStore,
    completion_in,
)
from turnstone.store.sessions.wire_turns import WireTurn

COMPLETIONS_AT_ONCE = 20
# Source: the clients of OpenAI's API take an empty page for the end of a list, even if `has_more` is true
MOST_BEFORE_FIRST = 10_000

Found = TypeVar("Found", FoundCompletion, ReadCompletion)
Rewrite = Callable[[bytes, Mapping[str, str]], bytes]


@dataclass(frozen=True, slots=True)
class StoredCompletionDeps:
    """Dependencies of stored chat completions. `kept_for_s` is how long one is kept."""

    store: StoredCompletionStore
    rules: AccessRules
    jobs: Callable[[], Jobs]
    clock: Clock
    kept_for_s: float


class StoredCompletions:
    def __init__(self, deps: StoredCompletionDeps) -> None:
        """Use the dependencies; `deps.jobs` is a function, because storing and reading send no jobs."""
        self._deps = deps
        self._store = deps.store

    def keep(self, caller: Caller, completion_id: str, model: str, metadata: Mapping[str, str], wire: bytes) -> None:
        """Store the answer to a request of the caller. Raises StoreUnavailable."""
        now = self._deps.clock.now()
        completion = StoredCompletion(
            completion_id=completion_id,
            model=model,
            created_at=now,
            ends_at=now + timedelta(seconds=self._deps.kept_for_s),
            metadata=metadata,
            stamp=owner_of(caller),
        )
        self._store.create(caller.tenant, completion, wire)

    def wire(self, caller: Caller, completion_id: str) -> WireTurn:
        """Return the completion as wire JSON. Raises NotFound, ContentLost."""
        return self._seen(caller, completion_id, self._store.read).wire

    def without_long_texts(self, caller: Caller, completion_id: str) -> tuple[bytes, Restore | None]:
        """Return the completion as wire JSON, and a function that restores its long texts in JSON made of it.

        Raises NotFound, ContentLost.
        """
        found = self._seen(caller, completion_id, self._store.without_long_texts)
        return found.wire, found.restore

    def list(
        self, caller: Caller, query: CompletionsQuery
    ) -> tuple[Listing, Iterator[tuple[StoredCompletion, WireTurn | None]]]:
        """Return the part of the list, and its completions with their wire JSON, read from the store on iteration.

        Lost content is None. A page ends early where too many completions in between are not shown: other callers', of
        other models or metadata, or expired.
        """
        now = self._deps.clock.now()

        def is_shown(entry: ListEntry) -> bool:
            completion = completion_in(entry)
            is_queried = not completion.is_over(now) and query.matches(completion)
            return is_queried and self._deps.rules.may_see(caller, entry.stamp)

        entries = self._store.entries(caller.tenant, query.after, query.limit, is_reverse=query.is_newest_first)
        listing = Listing(entries, ListQuery(limit=query.limit, cursor=query.after), is_shown, MOST_BEFORE_FIRST)
        return listing, self._wires(caller.tenant, listing)

    def update(self, caller: Caller, completion_id: str, metadata: Mapping[str, str], rewrite: Rewrite) -> WireTurn:
        """Replace the metadata of the completion; return its wire JSON as changed by `rewrite`.

        Raises:
            NotFound, Forbidden, ContentLost: it can't be changed.
            StoreUnavailable: it changes too fast.
        """

        def replace() -> WireTurn:
            found = self._seen(caller, completion_id, self._store.find)
            self._deps.rules.check_deletion(caller, found.completion.stamp, KIND, completion_id, "change")
            changed = found.completion.model_copy(update={"metadata": metadata})
            wire = rewrite(found.wire, metadata)
            if not self._store.replace(caller.tenant, found, changed, wire):
                raise ReadAgain
            return wire if len(wire) <= LARGE_BYTES else self.wire(caller, completion_id)

        return retried(replace, "the chat completion changes too fast, try again")

    def delete(self, caller: Caller, completion_id: str) -> None:
        """Delete the completion, even one whose content is lost. Raises NotFound, Forbidden."""
        completion = self._store.listed(caller.tenant, completion_id)
        now = self._deps.clock.now()
        if completion.is_over(now):
            raise NotFound(KIND, completion_id)
        self._deps.rules.check_deletion(caller, completion.stamp, KIND, completion_id)
        job = self._store.delete(caller.tenant, completion, now)
        if job is not None:
            from turnstone.store.cleanup.jobs import sent  # only where something large is deleted

            sent(self._deps.jobs(), job)

    def _seen(self, caller: Caller, completion_id: str, find: Callable[[str, str], Found]) -> Found:
        """Return the completion that the caller may see. Raises NotFound, ContentLost."""
        try:
            found = find(caller.tenant, completion_id)
        except ContentLost:
            self._check_sight(caller, self._store.listed(caller.tenant, completion_id))
            raise
        self._check_sight(caller, found.completion)
        return found

    def _check_sight(self, caller: Caller, completion: StoredCompletion) -> None:
        """Raise NotFound unless the completion is still kept and the caller may see it."""
        if completion.is_over(self._deps.clock.now()):
            raise NotFound(KIND, completion.completion_id)
        self._deps.rules.check_sight(caller, completion.stamp, KIND, completion.completion_id)

    def _wires(self, tenant: str, listing: Listing) -> Iterator[tuple[StoredCompletion, WireTurn | None]]:
        listed = iter(listing)
        while some := [completion_in(entry) for entry in islice(listed, COMPLETIONS_AT_ONCE)]:
            yield from self._store.wires(tenant, some)
