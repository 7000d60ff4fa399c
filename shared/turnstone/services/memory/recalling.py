"""Queries to several banks of any kinds together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import SEARCHED, BankKind, BankRef
from turnstone.domain.memory.questions import BankQuery, BankQuestion, Hit, hits_within
from turnstone.domain.provider_data import ProviderData
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.searching import Searching
from turnstone.store.memory.banks import StoredBank
from turnstone.store.memory.contents import View

DEPTH = 2
MOST_OTHERS = 10  # values or edges, where a query has no limit
LIMITS = frozenset({"max_chunks", "score_threshold", "max_tokens", "filters"})
PARAMETERS: Mapping[BankKind, frozenset[str]] = {
    "vector": LIMITS | {"mode", "ranker"},
    "keyword": LIMITS | {"mode", "ranker"},
    "keyvalue": LIMITS | {"keys"},
    "graph": LIMITS | {"entities", "depth"},
}


class RecalledBank(NamedTuple):
    """A bank to query.

    Attributes:
        keys: of the values of a bank of keys and values; none for those that the question names.
        entities: from which to walk in a graph bank; none for those that the question names.
        depth: the number of steps of that walk.
        view: the state of the bank's content, None to have it read.
    """

    stored: StoredBank
    keys: Sequence[str] = ()
    entities: Sequence[str] = ()
    depth: int = DEPTH
    view: View | None = None


@dataclass(frozen=True, slots=True)
class RecallingDeps:
    """Dependencies of queries. `values` and `edges` query one bank: by keys, or by entities and depth."""

    banks: Banks
    searching: Callable[[], Searching]
    values: Callable[[BankRef, Sequence[str], BankQuestion], list[Hit]]
    edges: Callable[[BankRef, Sequence[str], int, BankQuestion], list[Hit]]


class Recalling:
    def __init__(self, deps: RecallingDeps) -> None:
        self._deps = deps

    def query(self, caller: Caller, bank_id: str, query: BankQuery, provider_data: ProviderData) -> tuple[Hit, ...]:
        """Return the content that one bank has for a query.

        Raises:
            NotFound: no such bank.
            InvalidRequest: the bank is of a kind without one of the given parameters.
            ModelError: the question could not be embedded.
        """
        stored = self._deps.banks.visible(caller, bank_id)
        kind, question = stored.bank.kind, query.question
        for name in sorted(query.given - PARAMETERS[kind]):
            problem = f"a memory bank of the kind {kind!r} has no such parameter; leave it out"
            raise InvalidRequest(f"params.{name}: {problem}", ("params", name))
        if kind not in SEARCHED and "max_chunks" not in query.given:
            question = question._replace(max_chunks=max(MOST_OTHERS, len(query.keys)))
        bank = RecalledBank(stored, query.keys, query.entities, query.depth or DEPTH)
        return self.recall(caller, [bank], question, provider_data)

    def recall(
        self, caller: Caller, banks: Sequence[RecalledBank], question: BankQuestion, provider_data: ProviderData
    ) -> tuple[Hit, ...]:
        """Return the content that the banks have for the question; the caller's access to them is checked before.

        Values come first, in the order of their banks and keys; then, in turn, the best chunk of all searched banks,
        and the nearest edge of each graph. All of them together are within the limits of the question.

        Raises:
            NotFound: one of the banks was deleted.
            InvalidRequest: a bank has no vectors for a search by vectors alone.
            ModelError: the question could not be embedded.
        """
        values, graphs = self._values(caller, banks, question), self._graphs(caller, banks, question)
        searched = [each for each in banks if each.stored.bank.kind in SEARCHED]
        found: Sequence[Hit] = ()
        if searched:
            unlimited = question._replace(max_tokens=None)
            read = [each.view for each in searched if each.view is not None]
            views = read if len(read) == len(searched) else ()
            of_kinds = [each.stored for each in searched]
            found = self._deps.searching().search_banks(caller, of_kinds, unlimited, provider_data, views)
        hits = (hit for hit in (*values, *_in_turn(found, *graphs)) if hit.score >= question.threshold)
        return hits_within(question.max_tokens, islice(hits, question.max_chunks))

    def _values(self, caller: Caller, banks: Sequence[RecalledBank], question: BankQuestion) -> list[Hit]:
        of_kind = [each for each in banks if each.stored.bank.kind == "keyvalue"]
        self._deps.banks.touch(caller.tenant, [each.stored for each in of_kind])
        return [hit for each in of_kind for hit in self._deps.values(_ref_of(caller, each), each.keys, question)]

    def _graphs(self, caller: Caller, banks: Sequence[RecalledBank], question: BankQuestion) -> list[list[Hit]]:
        of_kind = [each for each in banks if each.stored.bank.kind == "graph"]
        self._deps.banks.touch(caller.tenant, [each.stored for each in of_kind])
        return [self._deps.edges(_ref_of(caller, each), each.entities, each.depth, question) for each in of_kind]


def _ref_of(caller: Caller, bank: RecalledBank) -> BankRef:
    return BankRef(caller.tenant, bank.stored.content_id, bank.stored.bank.bank_id)


def _in_turn(*ranked: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the first hit of each list, then the second, and so on."""
    for row in zip_longest(*ranked):
        yield from (hit for hit in row if hit is not None)
