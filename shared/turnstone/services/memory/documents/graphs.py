"""Graph banks: documents are lists of edges, or texts that a model reads them from; a query walks along edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, InvalidRequest
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk, Edge, GivenDocument
from turnstone.domain.memory.names import names_in
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.memory.texts.edges import FoundEdge, NotEdges, chunk_of, edges_in, entity_key, is_json, seems_json
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.records import Operation
from turnstone.ports.supervision import Jobs
from turnstone.services.memory.documents.document_records import (
    DocumentRecords,
    Records,
    until_written,
    with_content,
    writes_of,
)
from turnstone.services.memory.documents.edge_making import EdgeMaking
from turnstone.store.cleanup.jobs import put_job, sent
from turnstone.store.memory.contents import within_limits
from turnstone.store.memory.documents import StoredDocument, update
from turnstone.store.memory.edges import CURRENT, NEW, OLD, EdgeStore, InsertedEdges, StoredEdge

MOST_FOUND = 200  # edges
MOST_DEPTH = 3
MOST_NAMES = 48  # of a question, looked up
MOST_ENTITIES = 32  # from which a walk continues
EDGES_FURTHER = 50  # of an entity in each direction, beyond the first step of a walk
WRITTEN_AT_ONCE = 80  # records of edges
REMOVED_AFTER = timedelta(minutes=2)  # longer than a query or an insertion


@dataclass(frozen=True, slots=True)
class GraphDeps:
    store: EdgeStore
    records: DocumentRecords
    making: EdgeMaking
    jobs: Callable[[], Jobs]


class Graphs:
    def __init__(self, deps: GraphDeps) -> None:
        self._deps = deps

    def insert(
        self, caller: Caller, bank: Bank, ref: BankRef, given: Sequence[GivenDocument], provider_data: ProviderData
    ) -> None:
        """Store the edges of each document.

        Raises:
            InvalidRequest: a document is no list of edges, and no model is configured that reads them from texts.
            ModelError: that model failed.
        """
        edges = [self._edges(caller, bank, each, provider_data) for each in given]
        last = None
        for each, its in zip(given, edges, strict=True):
            last = self._put(ref, each, its, last)

    def drop(self, ref: BankRef, stored: StoredDocument, records: Records) -> None:
        ended, jobs = self._ended(ref, stored)
        self._deps.records.contents.write(ref, [*records(), *ended])
        sent(self._deps.jobs(), *jobs)

    def rewrite(
        self,
        ref: BankRef,
        stored: StoredDocument,  # noqa: ARG002 - as of every kind
        attributes: Mapping[str, Any],  # noqa: ARG002 - queries read them from the document's record
        records: Records,
    ) -> None:
        self._deps.records.contents.write(ref, records())

    def chunks(self, ref: BankRef, stored: StoredDocument) -> tuple[DocumentChunk, ...]:
        edges = self._deps.store.edges(ref, _inserted(stored))
        return tuple(chunk_of(stored.document.document_id, at, edge) for at, edge in enumerate(edges))

    def found(self, ref: BankRef, entities: Sequence[str], depth: int, question: BankQuestion) -> list[Hit]:
        """Return the edges around the entities up to that many steps, the nearest first; a hit's score is 1 / steps.

        Without entities, the walk begins at those that the question names.
        """
        names = entities or names_in(question.text, MOST_NAMES)
        frontier = list(dict.fromkeys(entity_key(name) for name in names))[:MOST_NAMES]
        visited, limit = set(frontier), MOST_FOUND
        hits: dict[Edge, Hit] = {}
        for step in range(1, min(depth, MOST_DEPTH) + 1):
            reached: dict[str, None] = {}
            for each, attributes in self._counting(ref, self._deps.store.around(ref, frontier, limit)):
                reached |= dict.fromkeys((entity_key(each.edge.subject), entity_key(each.edge.object)))
                hit = Hit(each.chunk, attributes, 1 / step, ref.bank_id)
                if question.filters is None or question.filters.matches({**hit.chunk.metadata, **attributes}):
                    hits.setdefault(each.edge, hit)
            frontier = [entity for entity in reached if entity not in visited][:MOST_ENTITIES]
            if not frontier or len(hits) >= MOST_FOUND:
                break
            visited |= set(frontier)
            limit = EDGES_FURTHER
        return list(hits.values())[:MOST_FOUND]

    def _counting(
        self, ref: BankRef, around: Sequence[Sequence[StoredEdge]]
    ) -> list[tuple[FoundEdge, Mapping[str, Any]]]:
        """Return the edges of insertions that count, those of each entity in turn, with their document's attributes."""
        orders = dict.fromkeys(each.inserted.order for edges in around for each in edges)
        documents = self._deps.records.store.at(ref, list(orders))
        found: dict[tuple[str, int], tuple[FoundEdge, Mapping[str, Any]]] = {}
        for edges in around:
            for edge, inserted, position in sorted(edges, key=lambda each: (each.inserted, each.position)):
                document = documents.get(inserted.order)
                if document is not None and document.found_id == inserted.insertion_id:
                    each = FoundEdge(edge, document.document_id, position)
                    found.setdefault((inserted.order, position), (each, document.attributes))
        return list(found.values())

    def _edges(
        self, caller: Caller, bank: Bank, document: GivenDocument, provider_data: ProviderData
    ) -> tuple[Edge, ...]:
        new, text = document.given.new, document.given.text
        field = f"documents.{document.number}.content"
        try:
            if is_json(new.mime_type) or seems_json(text):
                return edges_in(text)
        except NotEdges as problem:
            if is_json(new.mime_type) or not self._deps.making.is_configured:
                raise InvalidRequest(f"{field}: {problem}", document.location) from None
        if not self._deps.making.is_configured:
            remedy = 'send a JSON list of edges {"subject", "relation", "object"}'
            message = f"{field}: this server has no model that reads edges from texts; {remedy}"
            raise InvalidRequest(message, document.location)
        return self._deps.making.edges(caller, text, new.chunking or bank.chunking, provider_data, document.location)

    def _put(self, ref: BankRef, document: GivenDocument, edges: Sequence[Edge], last: str | None) -> str | None:
        """Store the edges of one document; return the newest order key, above `last`."""
        puts = self._deps.store.put_edges(ref, InsertedEdges("", ""), edges)
        if len(puts) <= WRITTEN_AT_ONCE and len(list(within_limits(puts))) <= 1:
            return self._put_at_once(ref, document, edges, last)
        begun = self._begun(ref, document, last)
        inserted = _inserting(begun)
        cleaning = self._cleaning(ref, inserted)
        contents = self._deps.records.contents
        contents.write(ref, [*self._deps.store.put_list(ref, inserted, edges, NEW), put_job(cleaning)])
        sent(self._deps.jobs(), cleaning)
        for some in within_limits(self._deps.store.put_edges(ref, inserted, edges), WRITTEN_AT_ONCE):
            try:
                contents.write(ref, [*some, self._deps.store.still_new(ref, inserted)])
            except Conflict:
                return begun.order  # too slow: the clean-up removes the rest
        self._completed(ref, document, begun, len(edges))
        return begun.order

    def _put_at_once(self, ref: BankRef, given: GivenDocument, edges: Sequence[Edge], last: str | None) -> str | None:
        """Store a document with few edges in one write."""
        records, new = self._deps.records, given.given.new

        def act() -> tuple[str | None, list[Job]]:
            found = records.found(ref, [new.document_id]).get(new.document_id)
            stored = records.stored(found, with_content(records.begun(found, new), len(edges), given.digest), last)
            content: list[Operation] = []
            if edges:
                inserted = _inserted(stored)
                content = [
                    *self._deps.store.put_list(ref, inserted, edges, CURRENT),
                    *self._deps.store.put_edges(ref, inserted, edges),
                ]
            ended, jobs = self._ended(ref, found)
            records.contents.write(ref, [*writes_of(ref, stored, found), *content, *ended])
            return (last if found else stored.order), jobs

        order, jobs = until_written(act, on=(Conflict,))
        sent(self._deps.jobs(), *jobs)
        return order

    def _begun(self, ref: BankRef, given: GivenDocument, last: str | None) -> StoredDocument:
        """Record that the edges of the document are being written, and return it."""
        records, new = self._deps.records, given.given.new

        def act() -> StoredDocument:
            found = records.found(ref, [new.document_id]).get(new.document_id)
            stored = records.stored(found, records.begun(found, new), last)
            records.contents.write(ref, writes_of(ref, stored, found))
            return stored

        return until_written(act, on=(Conflict,))

    def _completed(self, ref: BankRef, given: GivenDocument, begun: StoredDocument, count: int) -> None:
        """Let the written edges count instead of earlier ones, unless a newer insertion was begun."""
        records, document_id = self._deps.records, begun.document.document_id

        def act() -> list[Job]:
            found = records.found(ref, [document_id]).get(document_id)
            if found is None or found.document.insertion_id != begun.document.insertion_id:
                return []
            ended, jobs = self._ended(ref, found)
            document = with_content(found.document, count, given.digest)
            turned = self._deps.store.turned(ref, _inserting(begun), NEW, CURRENT)
            records.contents.write(ref, [*update(ref, found, document, records.ids.new_id()), turned, *ended])
            return jobs

        sent(self._deps.jobs(), *until_written(act, on=(Conflict,)))

    def _ended(self, ref: BankRef, found: StoredDocument | None) -> tuple[list[Operation], list[Job]]:
        """Return the writes by which a document's edges count no more, and the jobs among them."""
        if found is None or not found.document.chunks:
            return [], []
        inserted = _inserted(found)
        cleaning = self._cleaning(ref, inserted)
        return [self._deps.store.turned(ref, inserted, CURRENT, OLD), put_job(cleaning)], [cleaning]

    def _cleaning(self, ref: BankRef, inserted: InsertedEdges) -> Job:
        now = self._deps.records.clock.now()
        due_at, order = now + REMOVED_AFTER, ref.content_id
        return Job(kind="clean_insertion", tenant=ref.tenant, order=order, name=inserted.name, since=now, due_at=due_at)


def _inserted(stored: StoredDocument) -> InsertedEdges:
    """Return the insertion of a document whose edges count."""
    return InsertedEdges(stored.order, stored.document.found_id)


def _inserting(stored: StoredDocument) -> InsertedEdges:
    """Return the newest insertion of a document."""
    return InsertedEdges(stored.order, stored.document.insertion_id)
