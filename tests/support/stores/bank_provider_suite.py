"""The laws of every BankProvider."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import hypot
from typing import Any
from uuid import uuid4

import pytest

from turnstone.domain.errors import Unsupported
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Filter, parsed
from turnstone.ports.memory_providers import BankProvider, Insertion, InsertionRef, ProviderHit, ProviderQuestion

HOSTILE = (
    "'; DROP TABLE chunks; --",
    'a "quoted" %s {x} \\ $1 $eq \u2028',
    "\x00 begins with it",
    "half of a pair: \ud83d, the other: \udc00",
    "\x01\x02 \ue000\uffff \U0001f600 é",
    "$and",
    " ",
)
DIMENSION = 8
Vector = Sequence[float]


def inserted(
    document_id: str,
    *vectors: Vector,
    texts: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
    attributes: dict[str, Any] | None = None,
) -> Insertion:
    """Return an insertion of a document with a chunk for each vector."""
    named = texts or [f"text {position} of {document_id}" for position in range(len(vectors))]
    chunks = [
        DocumentChunk(document_id, position, text, len(text), metadata or {}, vector)
        for position, (text, vector) in enumerate(zip(named, vectors, strict=True))
    ]
    return Insertion(str(uuid4()), document_id, chunks, attributes or {})


def axis(number: int, others: float = 0.0) -> list[float]:
    """Return a vector in the direction of an axis, and a little in that of all others."""
    return [1.0 if at == number else others for at in range(DIMENSION)]


def question(vector: Vector, limit: int = 10, filters: dict[str, Any] | None = None) -> ProviderQuestion:
    return ProviderQuestion(vector, limit, None if filters is None else parsed(filters, ("filters",)))


def documents(hits: Sequence[ProviderHit]) -> list[str]:
    return [hit.chunk.document_id for hit in hits]


class BankProviderConformance:
    """Subclasses define the fixture `provider`. Each test has banks of its own, removed at its end."""

    @pytest.fixture
    def tenant(self) -> str:
        return f"tenant-{uuid4()}"

    @pytest.fixture
    def ref(self, provider: BankProvider, tenant: str) -> Iterator[BankRef]:
        ref = BankRef(tenant, str(uuid4()), "bank")
        yield ref
        provider.remove(ref)

    def test_chunks_are_found_whole_the_nearest_first(self, provider: BankProvider, ref: BankRef) -> None:
        near = inserted("near", axis(0), metadata={"page": 3, "of": ["a", None]}, attributes={"lang": "sv"})
        far = inserted("far", axis(1), axis(0, 0.5))
        provider.put(ref, [far, near])
        first, second, third = provider.search(ref, question(axis(0, 0.01)))
        assert first[:3] == (near.insertion_id, near.chunks[0]._replace(vector=None), {"lang": "sv"})
        assert (second.chunk, third.chunk) == (
            far.chunks[1]._replace(vector=None),
            far.chunks[0]._replace(vector=None),
        )
        dot = 1 + 0.01 * 0.5 * (DIMENSION - 1)
        expected = dot / (hypot(*axis(0, 0.01)) * hypot(*axis(0, 0.5)))
        assert second.cosine == pytest.approx(expected, abs=1e-6)

    def test_a_repeated_insertion_changes_nothing(self, provider: BankProvider, ref: BankRef) -> None:
        one = inserted("one", axis(0), axis(1))
        provider.create(ref, DIMENSION)
        provider.create(ref, DIMENSION)
        provider.put(ref, [one])
        provider.put(ref, [one])
        assert len(provider.search(ref, question(axis(0)))) == 2

    def test_equal_scores_are_in_the_order_of_the_chunks_ids(self, provider: BankProvider, ref: BankRef) -> None:
        every = [inserted(f"document {number}", axis(2)) for number in range(20)]
        provider.put(ref, every)
        ids = [hit.chunk.chunk_id for hit in provider.search(ref, question(axis(2), 12))]
        assert ids == sorted(each.chunks[0].chunk_id for each in every)[:12]

    def test_a_dropped_insertion_is_not_found_and_others_are(self, provider: BankProvider, ref: BankRef) -> None:
        old, new = inserted("same", axis(0), axis(0, 0.1)), inserted("same", axis(0))
        provider.put(ref, [old, new])
        provider.drop(ref, [old.ref])
        provider.drop(ref, [old.ref, InsertionRef(str(uuid4()), 3)])
        assert [hit.insertion_id for hit in provider.search(ref, question(axis(0)))] == [new.insertion_id]

    def test_a_bank_that_does_not_exist_is_empty(self, provider: BankProvider, ref: BankRef) -> None:
        provider.drop(ref, [InsertionRef("never", 2)])
        provider.remove(ref)
        assert provider.search(ref, question(axis(0))) == []
        assert provider.chunks(ref, InsertionRef("never", 2)) == ()

    def test_a_removed_bank_is_empty_and_can_be_filled_again(self, provider: BankProvider, ref: BankRef) -> None:
        provider.put(ref, [inserted("old", axis(0))])
        provider.remove(ref)
        provider.remove(ref)
        assert provider.search(ref, question(axis(0))) == []
        provider.put(ref, [inserted("new", axis(0))])
        assert documents(provider.search(ref, question(axis(0)))) == ["new"]

    def test_banks_of_other_names_and_tenants_are_separate(
        self, provider: BankProvider, ref: BankRef, tenant: str
    ) -> None:
        others = [ref._replace(tenant=f"{tenant}-other"), ref._replace(content_id=str(uuid4()))]
        try:
            for number, each in enumerate([ref, *others]):
                provider.put(each, [inserted(f"of {number}", axis(0))])
            for each in others:
                provider.remove(each)
                assert documents(provider.search(ref, question(axis(0)))) == ["of 0"]
        finally:
            for each in others:
                provider.remove(each)

    def test_the_chunks_of_an_insertion_come_back_with_their_vectors(
        self, provider: BankProvider, ref: BankRef
    ) -> None:
        other, one = inserted("a", axis(5)), inserted("a", *(axis(at % DIMENSION, 0.25) for at in range(130)))
        provider.put(ref, [other, one])
        found = provider.chunks(ref, one.ref)
        assert [chunk._replace(vector=None) for chunk in found] == [chunk._replace(vector=None) for chunk in one.chunks]
        for chunk, given in zip(found, one.chunks, strict=True):
            assert list(chunk.vector or ()) == pytest.approx(unit(given.vector or ()), abs=1e-6)

    def test_hostile_names_and_texts_come_back_unchanged(self, provider: BankProvider, ref: BankRef) -> None:
        every = [
            inserted(text, axis(0), texts=[text], metadata={text: text}, attributes={f"{text}!": text})
            for text in HOSTILE
        ]
        provider.put(ref, every)
        found = {hit.chunk.document_id: hit for hit in provider.search(ref, question(axis(0), 20))}
        for each in every:
            hit = found[each.document_id]
            assert (hit.chunk, hit.attributes) == (each.chunks[0]._replace(vector=None), each.attributes)
            same = {"type": "eq", "key": each.document_id, "value": each.document_id}
            assert documents(provider.search(ref, question(axis(0), 20, same))) == [each.document_id]
            listed = {"type": "in", "key": f"{each.document_id}!", "value": [each.document_id, 1]}
            assert documents(provider.search(ref, question(axis(0), 20, listed))) == [each.document_id]

    def test_vectors_of_any_length_are_compared_by_direction(self, provider: BankProvider, ref: BankRef) -> None:
        provider.put(ref, [inserted("huge", [1e18] * 8), inserted("tiny", [1e-18, *[-1e-18] * 7])])
        assert documents(provider.search(ref, question([1e18] * 8))) == ["huge", "tiny"]
        first, *_ = provider.search(ref, question([1e-18, *[-1e-18] * 7]))
        assert (first.chunk.document_id, first.cosine) == ("tiny", pytest.approx(1.0, abs=1e-6))
        provider.put(ref, [inserted("narrow", [1.0, *[1e-300] * 7])])
        assert documents(provider.search(ref, question(axis(0))))[0] == "narrow"

    def test_filters_match_as_those_of_the_servers_own_banks_do(self, provider: BankProvider, ref: BankRef) -> None:
        """Compare each operator, and nested ones, with the filter itself over the same values."""
        drawn = random.Random(20)
        values = [
            "a",
            "b",
            "B",
            "é",
            "\x00",
            "\ud800",
            "",
            0,
            1,
            -1,
            2.5,
            1e21,
            10**21,
            True,
            False,
            None,
            ["a"],
            {"a": 1},
        ]
        every = [
            inserted(
                f"document {number}",
                axis(number % DIMENSION),
                metadata={key: drawn.choice(values) for key in drawn.sample("pqr", 2)},
                attributes={key: drawn.choice(values) for key in drawn.sample("rs", 1)},
            )
            for number in range(60)
        ]
        provider.put(ref, every)
        refused = 0
        for _ in range(120):
            filters = parsed(self._drawn_filter(drawn, 3), ("filters",))
            try:
                provider.refuse_filters(filters)
            except Unsupported:
                refused += 1
                continue
            assert self._found(provider, ref, filters) == {
                each.document_id for each in every if filters.matches({**each.chunks[0].metadata, **each.attributes})
            }, filters
        assert refused < 100

    def test_the_nearest_that_match_a_filter_are_found_among_many_others(
        self, provider: BankProvider, ref: BankRef
    ) -> None:
        near = [inserted(f"near {number}", axis(0, number / 10_000), metadata={"n": 0}) for number in range(300)]
        far = [inserted(f"far {number}", axis(1, 0.1), metadata={"n": 1}) for number in range(5)]
        provider.put(ref, near + far)
        only = {"type": "and", "filters": [{"type": "gt", "key": "n", "value": 0.5}]}
        assert sorted(documents(provider.search(ref, question(axis(0), 5, only)))) == [f"far {n}" for n in range(5)]

    def test_large_insertions_are_stored_whole(self, provider: BankProvider, ref: BankRef) -> None:
        one = inserted("large", *(axis(at % DIMENSION, at / 2_000) for at in range(1_203)))
        provider.put(ref, [one])
        assert len(provider.chunks(ref, one.ref)) == 1_203
        provider.drop(ref, [one.ref])
        assert provider.search(ref, question(axis(0))) == []

    def test_as_many_hits_as_possible_are_returned_at_most(self, provider: BankProvider, ref: BankRef) -> None:
        most = provider.most_hits
        provider.put(ref, [inserted("many", *(axis(0, at / 5_000) for at in range(most + 5)))])
        assert len(provider.search(ref, question(axis(0), most + 3))) == most

    def test_threads_may_write_and_search_a_new_bank_at_the_same_time(
        self, provider: BankProvider, ref: BankRef
    ) -> None:
        def act(number: int) -> None:
            provider.put(ref, [inserted(f"document {number}", axis(0, number / 100))])
            found = documents(provider.search(ref, question(axis(0, number / 100), 50)))
            assert f"document {number}" in found

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(act, range(32)))
        assert len(provider.search(ref, question(axis(0), 50))) == 32

    def _found(self, provider: BankProvider, ref: BankRef, filters: Filter) -> set[str]:
        return set(documents(provider.search(ref, ProviderQuestion([1.0] * DIMENSION, 100, filters))))

    def _drawn_filter(self, drawn: random.Random, levels: int) -> dict[str, Any]:
        kind = drawn.choice(("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", *(("and", "or") if levels else ())))
        if kind in ("and", "or"):
            inner = [self._drawn_filter(drawn, levels - 1) for _ in range(drawn.randint(1, 3))]
            return {"type": kind, "filters": inner}
        scalars: list[Any] = ["a", "b", "é", "\x00", "\ud800", "", 0, 1, 2.5, 1e21, -1]
        if kind in ("in", "nin"):
            return {"type": kind, "key": drawn.choice("pqrst"), "value": drawn.sample([*scalars, True, False], 3)}
        if kind in ("eq", "ne"):
            scalars += [True, False]
        return {"type": kind, "key": drawn.choice("pqrst"), "value": drawn.choice(scalars)}


class ApproximateConformance(BankProviderConformance):
    """The laws of providers that do not compare a question with each vector."""

    def test_equal_scores_are_in_the_order_of_the_chunks_ids(self, provider: BankProvider, ref: BankRef) -> None:
        """Some of several equal vectors are found, in that order."""
        provider.put(ref, [inserted(f"document {number}", axis(2)) for number in range(20)])
        ids = [hit.chunk.chunk_id for hit in provider.search(ref, question(axis(2), 12))]
        assert len(ids) == 12
        assert ids == sorted(ids)


def unit(vector: Vector) -> list[float]:
    """Return the vector of the length 1 in the same direction."""
    return [number / hypot(*vector) for number in vector]
