"""Archival memory of agents: insert, search, list and remove passages; callers check the access to the agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.archives import (
    LONGEST_TEXT,
    PASSAGE_KIND,
    WHOLE,
    Passage,
    PassageQuery,
    passages_in,
)
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.memory.banks import Bank, VectorSpace
from turnstone.domain.memory.documents import Document, DocumentQuery, NewDocument, TextDocument
from turnstone.domain.memory.lent_banks import archive_of
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.memory.documents.document_records import DocumentRecords, until_written
from turnstone.services.memory.documents.documents import Documents
from turnstone.services.memory.indexes import Indexes
from turnstone.services.memory.recalling import RecalledBank, Recalling
from turnstone.services.memory.turns.lending import caller_of
from turnstone.store.agents.agents import AgentStore
from turnstone.store.memory.bank_reads import BankReads, OpenedBank
from turnstone.store.memory.banks import BankStore, StoredBank
from turnstone.store.memory.contents import SegmentGone

ONCE = Attempt(fingerprint="")  # passages under the same ids change nothing
NAMESPACE = UUID("0b7c53f6-6c0e-4c1e-8a38-1f7e2a5f7a10")


@dataclass(frozen=True, slots=True)
class ArchiveDeps:
    """Dependencies of archival memory.

    Attributes:
        space: returns the tenant's space of vectors, None where none is configured: passages are found by keywords.
    """

    agents: AgentStore
    banks: BankStore
    reads: BankReads
    documents: Documents
    records: DocumentRecords
    indexes: Indexes
    recalling: Recalling
    space: Callable[[str], VectorSpace | None]
    clock: Clock
    ids: IdGenerator


class Archives:
    def __init__(self, deps: ArchiveDeps) -> None:
        self._deps = deps

    def insert(
        self, tenant: str, agent_id: str, text: str, key: str | None, provider_data: ProviderData
    ) -> tuple[Passage, ...]:
        """Add the text as passages, each found by every search when this returns; return them.

        Args:
            key: the same for an insertion that is repeated, which then changes nothing; None for one of its own.

        Raises:
            NotFound: the agent was deleted.
            InvalidRequest: the text is blank or too long, the memory is full, or another bank has its name.
            ModelError: the text could not be embedded; nothing is added.
        """
        if len(text) > LONGEST_TEXT:
            raise InvalidRequest(f"text: has {len(text)} characters, over the limit of {LONGEST_TEXT}", ("text",))
        texts = passages_in(text)
        if not texts:
            raise InvalidRequest("text: must not be blank", ("text",))
        owner, made = self._made(tenant, agent_id)
        source = self._deps.ids.new_id() if key is None else key
        ids = [str(uuid5(NAMESPACE, f"{agent_id}:{source}:{number}")) for number in range(len(texts))]
        given = [TextDocument(NewDocument(each), own) for each, own in zip(ids, texts, strict=True)]
        self._deps.documents.insert(owner, made.bank.bank_id, given, provider_data, ONCE)
        return self._passages(
            tenant, agent_id, [self._deps.documents.get(owner, made.bank.bank_id, each) for each in ids]
        )

    def search(
        self, tenant: str, agent_id: str, query: str, part: slice, provider_data: ProviderData
    ) -> tuple[Passage, ...]:
        """Return that part of the passages that fit the query, the best first. Raises NotFound, ModelError."""
        opened = self._opened(tenant, agent_id)
        if opened is None:
            return ()
        owner = self._owner(tenant, agent_id)
        recalled = [RecalledBank(opened.stored, view=opened.view)]
        question = BankQuestion(query, None, max_chunks=part.stop)
        hits = self._deps.recalling.recall(owner, recalled, question, provider_data)[part]
        found = self._deps.records.found(opened.ref, [hit.chunk.document_id for hit in hits])
        times = {name: stored.document.created_at for name, stored in found.items()}
        return tuple(
            Passage(hit.chunk.document_id, hit.chunk.text, times[hit.chunk.document_id], hit.score)
            for hit in hits
            if hit.chunk.document_id in times
        )

    def list(self, tenant: str, agent_id: str, query: PassageQuery) -> tuple[Passage, ...]:
        """Return the part of the passages, oldest first. Raises NotFound for an unknown `after` or `before`."""
        named = next((each for each in (query.after, query.before) if each is not None), None)
        if self._opened(tenant, agent_id) is None:
            if named is not None:
                raise NotFound(PASSAGE_KIND, named)
            return ()
        owner = self._owner(tenant, agent_id)
        documents = DocumentQuery(query.limit, after=query.after, before=query.before)
        try:
            page = self._deps.documents.list(owner, archive_of(agent_id), documents)
        except InvalidRequest as problem:
            raise NotFound(PASSAGE_KIND, str(named)) from problem
        return self._passages(tenant, agent_id, page.documents)

    def drop(self, tenant: str, agent_id: str, passage_id: str) -> None:
        """Remove the passage. Raises NotFound."""
        try:
            self._deps.documents.drop(self._owner(tenant, agent_id), archive_of(agent_id), passage_id)
        except NotFound as missing:
            raise NotFound(PASSAGE_KIND, passage_id) from missing

    def count(self, tenant: str, agent_id: str) -> int:
        """Return the number of passages."""
        opened = self._opened(tenant, agent_id)
        return 0 if opened is None else self._deps.records.store.counts([opened.ref])[0].completed

    def _passages(self, tenant: str, agent_id: str, documents: Sequence[Document]) -> tuple[Passage, ...]:
        """Return the passages of these documents, whose texts are read together."""

        def act() -> tuple[Passage, ...]:
            opened = self._opened(tenant, agent_id)
            if opened is None:
                return ()
            chunks_of, view = self._deps.indexes.chunks_of, opened.view
            texts = [(each, chunks_of(opened.ref, view, each.document_id)) for each in documents]
            return tuple(
                Passage(each.document_id, "".join(chunk.text for chunk in chunks), each.created_at)
                for each, chunks in texts
                if chunks
            )

        return until_written(act, on=(SegmentGone,))

    def _opened(self, tenant: str, agent_id: str) -> OpenedBank | None:
        """Return the agent's bank with its content, None before its first passage."""
        name = archive_of(agent_id)
        opened = self._deps.reads.open(tenant, [name]).get(name)
        return None if opened is None or opened.stored.bank.lives_with_agent != agent_id else opened

    def _owner(self, tenant: str, agent_id: str) -> Caller:
        return caller_of(tenant, self._deps.agents.get(tenant, agent_id).stamp)

    def _made(self, tenant: str, agent_id: str) -> tuple[Caller, StoredBank]:
        """Return the agent's owner and its bank, a new one if it has none yet. Raises NotFound, InvalidRequest."""
        name, stamp = archive_of(agent_id), self._deps.agents.get(tenant, agent_id).stamp
        found = self._deps.reads.find(tenant, [name]).get(name)
        if found is None:
            space, now = self._deps.space(tenant), self._deps.clock.now()
            bank = Bank(
                bank_id=name,
                kind="keyword" if space is None else "vector",
                space=space,
                chunking=WHOLE,
                created_at=now,
                lives_with_agent=agent_id,
                stamp=stamp,
            )
            new = StoredBank(bank, self._deps.ids.order_key(now, None))
            found = self._deps.banks.create_for_agent(tenant, agent_id, new)
        if found.bank.lives_with_agent != agent_id:
            raise InvalidRequest(
                f"the name of the agent's archival memory, {name!r}, is taken; delete that memory bank"
            )
        return caller_of(tenant, stamp), found
