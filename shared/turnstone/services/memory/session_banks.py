"""Banks of sessions: each is made for the first text that its session keeps, and is removed with the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import MemoryUnusable
from turnstone.domain.memory.banks import MOST_CHUNKS, Bank, BankRef, VectorSpace, bank_of_session
from turnstone.domain.memory.chunking import chunks_of
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.refs import SessionRef
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import Folding, is_due
from turnstone.store.memory.bank_reads import BankReads
from turnstone.store.memory.banks import BankStore, StoredBank
from turnstone.store.memory.contents import BankChange, BankContents

WITH_HEADINGS = ("text/markdown", "text/x-markdown")


class SessionText(NamedTuple):
    """A text that a session keeps; under the id of an earlier one it replaces that."""

    document_id: str
    text: str
    mime_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class SessionBankDeps:
    """Dependencies of session banks. `space` returns the tenant's space of vectors, None where none is configured."""

    store: BankStore
    reads: BankReads
    contents: BankContents
    folding: Callable[[], Folding]
    embedding: BankEmbedding
    space: Callable[[str], VectorSpace | None]
    clock: Clock
    ids: IdGenerator


class SessionBanks:
    def __init__(self, deps: SessionBankDeps) -> None:
        self._deps = deps

    def keep(
        self, ref: SessionRef, stamp: Ownership, texts: Sequence[SessionText], provider_data: ProviderData
    ) -> None:
        """Add the texts to the session's bank; to do so again changes nothing.

        Args:
            stamp: the owner and access list of the session.

        Raises:
            NotFound: the session was deleted.
            MemoryUnusable: the bank is full, or another one has its name.
            ModelError: the texts could not be embedded; none is added.
        """
        bank, content_id = self._made(ref, stamp)
        bank_ref = BankRef(ref.tenant, content_id, bank.bank_id)
        changes = [_change(each, bank) for each in texts]
        added = sum(len(change.chunks or ()) for change in changes)
        if self._deps.contents.manifest(bank_ref).chunks + added > MOST_CHUNKS:
            raise MemoryUnusable(
                f"attachments: the session would have more than {MOST_CHUNKS} chunks", ("attachments",)
            )
        if bank.space is not None:
            changes = self._embedded(ref.tenant, bank.space, changes, provider_data)
        self._deps.contents.append(bank_ref, changes, self._deps.ids.new_id)
        if is_due([change.document_id for change in changes], added):
            self._deps.folding().fold(bank_ref)

    def _made(self, ref: SessionRef, stamp: Ownership) -> StoredBank:
        """Return the session's bank, a new one if it has none yet. Raises NotFound for a deleted session."""
        name = bank_of_session(ref.session_id)
        found = self._deps.reads.find(ref.tenant, [name]).get(name)
        if found is None:
            space, now = self._deps.space(ref.tenant), self._deps.clock.now()
            bank = Bank(
                bank_id=name,
                kind="keyword" if space is None else "vector",
                space=space,
                created_at=now,
                lives_with=ref,
                stamp=stamp,
            )
            found = self._deps.store.create_for_session(ref, StoredBank(bank, self._deps.ids.order_key(now, None)))
        if found.bank.lives_with != ref:
            taken = f"the name of the session's bank, {name!r}, is taken; delete that bank"
            raise MemoryUnusable(f"attachments: {taken}", ("attachments",))
        return found

    def _embedded(
        self, tenant: str, space: VectorSpace, changes: Sequence[BankChange], provider_data: ProviderData
    ) -> list[BankChange]:
        texts = [chunk.text for change in changes for chunk in change.chunks or ()]
        caller = Caller.model_construct(tenant=tenant, principal="")
        vectors = iter(self._deps.embedding.vectors(caller, space, texts, provider_data))
        return [
            change._replace(chunks=tuple(chunk._replace(vector=next(vectors)) for chunk in change.chunks or ()))
            for change in changes
        ]


def _change(given: SessionText, bank: Bank) -> BankChange:
    has_headings = given.mime_type.partition(";")[0].strip().lower() in WITH_HEADINGS
    cuts = chunks_of(given.text, bank.chunking, has_headings=has_headings)
    chunks = (DocumentChunk(given.document_id, position, cut.text, cut.tokens, {}) for position, cut in enumerate(cuts))
    return BankChange(given.document_id, tuple(chunks), {"mime_type": given.mime_type})
