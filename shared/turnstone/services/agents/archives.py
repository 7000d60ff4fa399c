"""Archival memory of agents: insert, search, list and remove passages; callers check the access to the agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid5

from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.archives import (
    LONGEST_TEXT,
    PASSAGE_KIND,
    WHOLE,
    Passage,
    PassageQuery,
    Position,
    passages_in,
    position_in_source,
)
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.memory.banks import Bank, BankRef, VectorSpace
from turnstone.domain.memory.documents import NewDocument, TextDocument
from turnstone.domain.memory.lent_banks import archive_of
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.agents.passages import Passages, Slot
from turnstone.services.memory.documents.documents import Documents
from turnstone.services.memory.recalling import RecalledBank, Recalling
from turnstone.services.memory.turns.lending import caller_of
from turnstone.store.agents.agents import AgentStore
from turnstone.store.letta.agents import LettaAgentStore
from turnstone.store.memory.banks import BankStore, StoredBank

ONCE = Attempt(fingerprint="")  # passages under the same ids change nothing
NAMESPACE = UUID("0b7c53f6-6c0e-4c1e-8a38-1f7e2a5f7a10")


@dataclass(frozen=True, slots=True)
class ArchiveDeps:
    """Dependencies of archival memory.

    Attributes:
        space: returns the tenant's space of vectors, None where none is configured: passages are found by keywords.
    """

    agents: AgentStore
    letta_agents: LettaAgentStore
    banks: BankStore
    documents: Documents
    passages: Passages
    rules: AccessRules
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
        ref = BankRef(tenant, made.content_id, made.bank.bank_id)
        kept = self._deps.passages.records.found(ref, ids)
        slots = [Slot(Position(kept[each].order, 0), made, kept[each].document) for each in ids if each in kept]
        return self._deps.passages.read(tenant, slots)

    def search(
        self, tenant: str, agent_id: str, query: str, part: slice, provider_data: ProviderData
    ) -> tuple[Passage, ...]:
        """Return that part of the passages that fit the query, the best first. Raises NotFound, ModelError."""
        owner, banks = self._banks(tenant, agent_id)
        if not banks:
            return ()
        opened = self._deps.passages.reads.open(tenant, [each.bank.bank_id for each in banks]).values()
        recalled = [RecalledBank(each.stored, view=each.view) for each in opened]
        question = BankQuestion(query, None, max_chunks=part.stop)
        hits = self._deps.recalling.recall(owner, recalled, question, provider_data)[part] if recalled else ()
        return self._deps.passages.found(tenant, [each.stored for each in opened], hits)

    def list(self, tenant: str, agent_id: str, query: PassageQuery) -> tuple[Passage, ...]:
        """Return the part of the passages, oldest first, with those of the agent's sources.

        Raises NotFound for a deleted agent, and for an unknown `after` or `before`.
        """
        return self._deps.passages.list(tenant, self._banks(tenant, agent_id)[1], query)

    def drop(self, tenant: str, agent_id: str, passage_id: str) -> None:
        """Remove the passage. Raises NotFound, and InvalidRequest for a passage of a source."""
        owner, banks = self._banks(tenant, agent_id)
        if position_in_source(passage_id) is not None:
            self._deps.passages.position(tenant, banks, passage_id)
            raise InvalidRequest("a passage of a source is deleted with its file, and leaves the agent with its source")
        try:
            self._deps.documents.drop(owner, archive_of(agent_id), passage_id)
        except NotFound as missing:
            raise NotFound(PASSAGE_KIND, passage_id) from missing

    def count(self, tenant: str, agent_id: str) -> int:
        """Return the number of passages, with those of the agent's sources. Raises NotFound for a deleted agent."""
        return self._deps.passages.count(tenant, self._banks(tenant, agent_id)[1])

    def _banks(self, tenant: str, agent_id: str) -> tuple[Caller, tuple[StoredBank, ...]]:
        """Return the agent's owner, its bank, if it has one yet, and the sources that its owner may see."""
        stored, fields = self._deps.letta_agents.read(tenant, agent_id)
        owner, name = caller_of(tenant, stored.stamp), archive_of(agent_id)
        found = self._deps.passages.reads.find(tenant, [name, *fields.source_ids])
        own = found.pop(name, None)
        sources = [
            each
            for each in found.values()
            if each.bank.source is not None and self._deps.rules.may_see(owner, each.bank.stamp)
        ]
        is_own = own is not None and own.bank.lives_with_agent == agent_id
        return owner, (*([own] if own is not None and is_own else []), *sources)

    def _made(self, tenant: str, agent_id: str) -> tuple[Caller, StoredBank]:
        """Return the agent's owner and its bank, a new one if it has none yet. Raises NotFound, InvalidRequest."""
        name, stamp = archive_of(agent_id), self._deps.agents.get(tenant, agent_id).stamp
        found = self._deps.passages.reads.find(tenant, [name]).get(name)
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
