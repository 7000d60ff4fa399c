"""Edges of graph banks: each a record at its subject and one at its object, both named by their document's insertion.

The edges of an insertion count while its document's record names it, so they appear and disappear all at once. An
insertion has a status: `new` while they are written, `current` while they count, `old` afterwards, and
`gone` from the moment when a clean-up removes them, which ends a writer that is slower than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict, ContentLost
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import Edge
from turnstone.domain.memory.texts.edges import entity_key
from turnstone.ports.records import AttributeIs, Check, Delete, Key, Put, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.banks import edge_keys, edge_list_key, edge_state_key, edges_at

EDGES_AT_ONCE = 40  # of a write, two records each
NEW, CURRENT, OLD, GONE = "new", "current", "old", "gone"


class InsertedEdges(NamedTuple):
    """The edges of one insertion of a document, which has this order key."""

    order: str
    insertion_id: str

    @property
    def name(self) -> str:
        """Both in one text, for a job."""
        return f"{self.order}:{self.insertion_id}"


class StoredEdge(NamedTuple):
    """An edge with its insertion and its position among the edges of that."""

    edge: Edge
    inserted: InsertedEdges
    position: int


class EdgeStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def around(self, ref: BankRef, entities: Sequence[str], limit: int) -> list[list[StoredEdge]]:
        """Return the first edges of each entity, by its key: at most that many from it, and as many to it.

        Edges of insertions that do not count are among them.
        """
        ranges = [each for entity in entities for each in edges_at(*ref[:2], entity, limit)]
        _, found = self._store.gather([], ranges)
        edges = [[_edge_in(record) for record in page.records] for page in found]
        return [[*edges[at], *edges[at + 1]] for at in range(0, len(edges), 2)]

    def put_list(self, ref: BankRef, inserted: InsertedEdges, edges: Sequence[Edge], status: str) -> list[Put]:
        """Return the writes of the list of an insertion's edges, and of its status."""
        return [
            Put(edge_list_key(*ref[:2], *inserted), to_json(edges)),
            Put(edge_state_key(*ref[:2], *inserted), b"{}", {"status": status}),
        ]

    def put_edges(self, ref: BankRef, inserted: InsertedEdges, edges: Sequence[Edge], first: int = 0) -> list[Put]:
        """Return the writes of edges, of which the first one has this position."""
        return [
            Put(key, to_json(edge))
            for position, edge in enumerate(edges, start=first)
            for key in _keys(ref, inserted, position, edge)
        ]

    def still_new(self, ref: BankRef, inserted: InsertedEdges) -> Check:
        """Return the condition that no clean-up has begun to remove edges that are being written."""
        return Check(edge_state_key(*ref[:2], *inserted), (AttributeIs("status", NEW),))

    def turned(self, ref: BankRef, inserted: InsertedEdges, before: str, after: str) -> Put:
        """Return the write that changes the status of an insertion's edges."""
        return Put(edge_state_key(*ref[:2], *inserted), b"{}", {"status": after}, when=(AttributeIs("status", before),))

    def edges(self, ref: BankRef, inserted: InsertedEdges) -> tuple[Edge, ...]:
        """Return all edges of an insertion, none if they are removed. Raises ContentLost."""
        record = self._store.get(edge_list_key(*ref[:2], *inserted))
        return () if record is None else _list_in(record)

    def clear(self, job: Job, limit: int) -> bool:
        """Remove about that many edges of an insertion that does not count; return whether nothing is left to do."""
        order, _, insertion_id = job.name.partition(":")
        ref, inserted = BankRef(job.tenant, job.order, job.order), InsertedEdges(order, insertion_id)
        state = self._store.get(edge_state_key(*ref[:2], *inserted))
        if state is None or (status := str(state.attributes["status"])) == CURRENT:
            return True
        if status != GONE:
            try:
                self._store.write([self.turned(ref, inserted, status, GONE)])
            except Conflict:
                return False  # it counts now, or another process removes it
        try:
            edges = self.edges(ref, inserted)
        except ContentLost:
            edges = ()  # its edges stay until the bank is deleted, and count no more
        begin = int(state.attributes.get("removed", 0))
        for at in range(begin, min(len(edges), begin + max(1, limit // 2)), EDGES_AT_ONCE):
            some = range(at, min(len(edges), at + EDGES_AT_ONCE))
            deletions = [Delete(key) for position in some for key in _keys(ref, inserted, position, edges[position])]
            done = Put(state.key, b"{}", {"status": GONE, "removed": some.stop}, when=(AttributeIs("status", GONE),))
            self._store.write([*deletions, done])
            begin = some.stop
        if begin < len(edges):
            return False
        for key in (edge_list_key(*ref[:2], *inserted), state.key):
            self._store.clear(key.pk, 1, key.sk)
        return True


def _keys(ref: BankRef, inserted: InsertedEdges, position: int, edge: Edge) -> tuple[Key, Key]:
    ends = entity_key(edge.subject), entity_key(edge.object)
    return edge_keys(*ref[:2], ends, f"{inserted.name}:{position:06d}")


def _edge_in(record: Record) -> StoredEdge:
    order, insertion_id, position = record.key.sk.rsplit(":", 3)[1:]
    return StoredEdge(Edge(*from_json(record.body)), InsertedEdges(order, insertion_id), int(position))


def _list_in(record: Record) -> tuple[Edge, ...]:
    return tuple(Edge(*fields) for fields in from_json(record.body))
