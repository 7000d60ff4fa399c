"""Documents of memory banks: of each one, searches find the newest completed insertion, and nothing of another.

Covers: services/memory/documents/documents, services/memory/documents/chunk_content, services/memory/indexes,
store/memory/documents, domain/memory/documents
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import ProcessDied, Server, StoreCall
from turnstone.adapters.retrieval.segments import NumpySegments
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.memory.banks import BankRef, Chunking, NewBank
from turnstone.domain.memory.documents import (
    Document,
    DocumentChunk,
    DocumentProblem,
    DocumentQuery,
    NewDocument,
    TextDocument,
)
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Range
from turnstone.services.memory import folding

pytestmark = pytest.mark.usefixtures("small_segments")

BANK = "shore"
FIRST = Attempt(fingerprint="body")
SMALL = Chunking(tokens=3, overlap=0)


@pytest.fixture(params=[64, 2], ids=["logged", "at once"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store documents of two chunks in the log, or as segments at once."""
    monkeypatch.setattr(folding, "AT_ONCE_FROM", request.param)


def opened(make: Make, **settings: Any) -> Server:
    server = make(**settings)
    server.core.banks.register(LOCAL_CALLER, NewBank(BANK, "vector", "scripted"), NO_PROVIDER_DATA, FIRST)
    return server


def inserted(server: Server, document_id: str, text: str, caller: Caller = LOCAL_CALLER, **attributes: Any) -> None:
    new = NewDocument(document_id, attributes, chunking=SMALL)
    server.core.documents.insert(caller, BANK, [TextDocument(new, text)], NO_PROVIDER_DATA, FIRST)


def texts_found(server: Server, text: str, filters: Any = None, mode: Any = "keyword") -> list[str]:
    kept = None if filters is None else parsed(filters, ("filters",))
    question = BankQuestion(text, None, mode, 100, filters=kept)
    hits = server.core.searching.search(LOCAL_CALLER, BANK, question, NO_PROVIDER_DATA)
    return sorted(hit.chunk.text for hit in hits)


def ref_of(server: Server) -> BankRef:
    return BankRef(LOCAL_CALLER.tenant, server.core.banks.visible(LOCAL_CALLER, BANK).content_id, BANK)


def got(server: Server, document_id: str) -> Document:
    return server.core.documents.get(LOCAL_CALLER, BANK, document_id)


def writes_the_document(call: StoreCall) -> bool:
    return any(each.key.sk.startswith("doc:") for each in call.operations)


def chunks_for(document_id: str, *texts: str) -> tuple[DocumentChunk, ...]:
    return tuple(DocumentChunk(document_id, at, text, 2, {}, [1.0, at, 0.5]) for at, text in enumerate(texts))


def begun(server: Server, document_id: str, **attributes: Any) -> Document:
    return server.core.documents.begin(ref_of(server), NewDocument(document_id, attributes))


def completed(server: Server, document: Document, *texts: str) -> bool:
    chunks = chunks_for(document.document_id, *texts)
    return server.core.documents.complete(ref_of(server), document.document_id, document.insertion_id, chunks)


def failed(server: Server, document: Document) -> bool:
    problem = DocumentProblem(code="unreadable", message="no text")
    return server.core.documents.fail(ref_of(server), document.document_id, document.insertion_id, problem)


def listed(server: Server, limit: int = 100, **more: Any) -> list[str]:
    page = server.core.documents.list(LOCAL_CALLER, BANK, DocumentQuery(limit, **more))
    return [each.document_id for each in page.documents]


def filled(server: Server, rounds: int = 4) -> None:
    """Insert other documents, so that the log is folded and segments are merged."""
    for number in range(rounds):
        inserted(server, f"other {number}", " ".join(f"fill {part}." for part in range(9)))


def records_of(server: Server) -> list[str]:
    ref = ref_of(server)
    records = server.records.range(Range(f"{ref.tenant}|bank:{ref.content_id}")).records
    return sorted(f"{record.key.sk} {record.rev}" for record in records)


@pytest.mark.usefixtures("sizes")
def test_a_document_is_found_wholly_and_replaced_wholly_wherever_it_is(both: Make) -> None:
    server, other = opened(both), both()
    for number, text in enumerate(("tern 1. tern 2. tern 3.", "tern 4. tern 5.", "tern 6.")):
        inserted(server, "a", text, round=number)
        for _ in range(2):
            assert " ".join(texts_found(other, "tern")) == text
            assert got(other, "a").chunks == len(texts_found(other, "tern"))
            filled(server)


def test_the_same_document_again_changes_nothing(both: Make) -> None:
    server = opened(both)
    inserted(server, "a", "tern 1. tern 2.", year=2024)
    before = records_of(server)
    inserted(server, "a", "tern 1. tern 2.", year=2024)
    assert records_of(server) == before
    inserted(server, "a", "tern 1. tern 2.", year=2025)
    assert got(server, "a").attributes == {"year": 2025}


def test_of_several_documents_of_one_id_in_a_request_the_last_counts(make: Make) -> None:
    server = opened(make)
    given = [TextDocument(NewDocument("a"), text) for text in ("tern 1", "knot 2")]
    server.core.documents.insert(LOCAL_CALLER, BANK, given, NO_PROVIDER_DATA, FIRST)
    assert texts_found(server, "tern knot") == ["knot 2"]


def test_a_document_without_words_removes_the_earlier_content(make: Make) -> None:
    server = opened(make)
    inserted(server, "a", "tern 1. tern 2. tern 3. tern 4.")
    filled(server)
    inserted(server, "a", " \n ")
    filled(server)
    assert texts_found(server, "tern") == []
    assert (got(server, "a").status, got(server, "a").chunks) == ("completed", 0)


@pytest.mark.usefixtures("sizes")
def test_many_documents_of_a_request_are_all_stored(make: Make) -> None:
    server = opened(make)
    given = [TextDocument(NewDocument(f"d{number:03}", {"n": number}), f"tern {number}") for number in range(60)]
    server.core.documents.insert(LOCAL_CALLER, BANK, given, NO_PROVIDER_DATA, FIRST)
    assert len(texts_found(server, "tern")) == 60
    assert listed(server) == [f"d{number:03}" for number in range(60)]


def test_documents_are_listed_in_the_order_of_first_insertion(both: Make) -> None:
    server = opened(both)
    for name in ("c", "a", "b"):
        inserted(server, name, f"tern {name}")
        server.clock.advance(1)  # type: ignore[attr-defined] # in tests it is a fake
    inserted(server, "c", "tern again")
    documents = server.core.documents
    assert listed(server) == ["c", "a", "b"]
    assert listed(server, is_newest_first=True) == ["b", "a", "c"]
    assert listed(server, 1, after="c") == ["a"]
    assert listed(server, 5, after="a", is_newest_first=True) == ["c"]
    assert documents.list(LOCAL_CALLER, BANK, DocumentQuery(2)).has_more
    assert not documents.list(LOCAL_CALLER, BANK, DocumentQuery(3)).has_more
    failed(server, begun(server, "a"))
    assert listed(server, status="failed") == ["a"]
    assert listed(server, 1, status="completed") == ["c"]
    with pytest.raises(InvalidRequest, match="after: the bank has no document 'd'"):
        listed(server, after="d")


@pytest.mark.usefixtures("sizes")
def test_changed_attributes_are_in_filters_at_once(both: Make) -> None:
    server, other = opened(both), both()
    inserted(server, "a", "tern 1. tern 2. tern 3.", year=2023)
    inserted(server, "b", "tern 4.", year=2025)
    for year in range(2026, 2028):
        chunks = server.core.documents.chunks(LOCAL_CALLER, BANK, "a")
        server.core.documents.set_attributes(LOCAL_CALLER, BANK, "a", {"year": year})
        nested = {"type": "eq", "key": "year", "value": year}
        for kind in ("or", "and", "or"):
            nested = {"type": kind, "filters": [nested]}
        assert texts_found(other, "tern", nested) == sorted(chunk.text for chunk in chunks)
        assert texts_found(other, "tern", {"type": "lt", "key": "year", "value": 2025}) == []
        filled(server)
    assert got(other, "a").attributes == {"year": 2027}


@pytest.mark.usefixtures("sizes")
def test_vectors_outlast_changes_of_attributes_without_loss(make: Make) -> None:
    server = opened(make)
    inserted(server, "a", "tern 1. tern 2. tern 3.", year=0)
    filled(server)
    before = NumpySegments().build(server.core.documents.chunks(LOCAL_CALLER, BANK, "a"), {})
    for year in range(1, 4):
        server.core.documents.set_attributes(LOCAL_CALLER, BANK, "a", {"year": year})
        filled(server)
        assert NumpySegments().build(server.core.documents.chunks(LOCAL_CALLER, BANK, "a"), {}) == before


@pytest.mark.usefixtures("sizes")
def test_attributes_changed_during_a_replacement_never_bring_back_old_content(make: Make) -> None:
    slow, other = opened(make), make()
    inserted(slow, "a", "tern 1. tern 2.", year=2023)
    filled(slow)
    slow.store.before(writes_the_document, lambda: inserted(other, "a", "knot 3.", year=2024))
    slow.core.documents.set_attributes(LOCAL_CALLER, BANK, "a", {"year": 2025})
    assert (texts_found(other, "tern"), texts_found(other, "knot")) == ([], ["knot 3."])
    assert got(other, "a").attributes == {"year": 2025}


def test_an_insertion_in_progress_leaves_the_earlier_content_until_it_is_completed(both: Make) -> None:
    server, other = opened(both), both()
    inserted(server, "a", "tern 1.", year=2023)
    document = begun(other, "a", year=2024)
    assert (got(server, "a").status, got(server, "a").attributes) == ("in_progress", {"year": 2023})
    assert texts_found(server, "tern", {"type": "eq", "key": "year", "value": 2023}) == ["tern 1."]
    assert completed(other, document, "knot 2")
    assert (got(server, "a").status, got(server, "a").attributes) == ("completed", {"year": 2024})
    assert texts_found(server, "tern knot", {"type": "eq", "key": "year", "value": 2024}) == ["knot 2"]
    assert completed(other, document, "knot 2"), "the job's second run"
    assert not failed(other, document)


def test_a_failed_insertion_gives_its_reason_and_keeps_the_earlier_content(make: Make) -> None:
    server = opened(make)
    first = begun(server, "new", year=1)
    assert failed(server, first)
    assert got(server, "new").last_error == DocumentProblem(code="unreadable", message="no text")
    inserted(server, "a", "tern 1.", year=2023)
    second = begun(server, "a", year=2024)
    assert failed(server, second)
    assert texts_found(server, "tern", {"type": "eq", "key": "year", "value": 2023}) == ["tern 1."]
    assert not completed(server, second, "late")
    inserted(server, "a", "tern 1.", year=2023)
    assert (got(server, "a").status, got(server, "a").last_error) == ("completed", None)


@pytest.mark.usefixtures("sizes")
def test_only_the_newest_insertion_of_a_document_counts(make: Make) -> None:
    server = opened(make)
    old, new = begun(server, "a"), begun(server, "a")
    assert completed(server, new, "tern new", "tern newer")
    assert not completed(server, old, "tern old", "tern older")
    assert not failed(server, old)
    assert texts_found(server, "tern") == ["tern new", "tern newer"]


@pytest.mark.usefixtures("sizes")
def test_an_insertion_that_a_newer_one_overtakes_while_it_is_stored_counts_no_more(make: Make) -> None:
    slow, other = opened(make), make()
    old = begun(slow, "a")

    def overtake() -> None:
        assert completed(other, begun(other, "a"), "tern new", "tern newer")

    slow.store.before(writes_the_document, overtake)
    assert not completed(slow, old, "tern old", "tern older")
    assert texts_found(slow, "tern") == ["tern new", "tern newer"]


def test_a_document_dropped_or_cancelled_while_it_is_ingested_does_not_come_back(make: Make) -> None:
    server = opened(make)
    dropped, cancelled = begun(server, "a"), begun(server, "b")
    server.core.documents.drop(LOCAL_CALLER, BANK, "a")
    assert server.core.documents.cancel(LOCAL_CALLER, BANK, "b").status == "cancelled"
    assert not completed(server, dropped, "tern a")
    assert not completed(server, cancelled, "tern b")
    assert texts_found(server, "tern") == []
    with pytest.raises(NotFound, match="document 'a' not found"):
        got(server, "a")
    inserted(server, "b", "tern b.")
    assert server.core.documents.cancel(LOCAL_CALLER, BANK, "b").status == "completed"


@pytest.mark.usefixtures("sizes")
def test_a_dropped_document_is_never_found_again(both: Make) -> None:
    server, other = opened(both), both()
    inserted(server, "a", "tern 1. tern 2. tern 3. tern 4.")
    filled(server)
    other.core.documents.drop(LOCAL_CALLER, BANK, "a")
    for _ in range(3):
        assert texts_found(server, "tern") == []
        filled(server)
    with pytest.raises(NotFound):
        server.core.documents.drop(LOCAL_CALLER, BANK, "a")
    assert "a" not in listed(server)
    inserted(server, "a", "tern 5.")
    assert texts_found(server, "tern") == ["tern 5."]


@pytest.mark.usefixtures("sizes")
def test_parallel_insertions_never_conflict(make: Make) -> None:
    servers = [opened(make), make()]

    def work(number: int) -> None:
        for part in range(5):
            inserted(servers[number % 2], f"own {number} {part}", f"tern {number} {part}")
            inserted(servers[number % 2], "shared", f"knot {number} {part}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert texts_found(servers[1], "tern") == sorted(
        f"tern {number} {part}" for number in range(6) for part in range(5)
    )
    assert len(texts_found(servers[0], "knot")) == 1
    assert len(listed(servers[0])) == 31


@pytest.mark.usefixtures("sizes")
def test_a_process_that_dies_at_any_write_leaves_the_document_whole(make: Make) -> None:
    acts: Sequence[Callable[[Server], object]] = (
        lambda server: inserted(server, "a", "knot 1. knot 2. knot 3. knot 4.", v=2),
        lambda server: server.core.documents.set_attributes(LOCAL_CALLER, BANK, "a", {"v": 2}),
        lambda server: server.core.documents.drop(LOCAL_CALLER, BANK, "a"),
        lambda server: completed(server, begun(server, "a", v=2), *(f"knot {part}" for part in range(7))),
    )
    server = opened(make)
    for act in acts:
        writes, is_over = count(1), False
        for death in writes:
            inserted(server, "a", "tern 1. tern 2. tern 3.", v=1)
            whole = texts_found(server, "tern")
            dying, calls = make(), count(1)

            def is_last(call: StoreCall, calls: Iterator[int] = calls, at: int = death) -> bool:
                return call.verb == "write" and next(calls) == at

            dying.store.after(is_last, dying.store.die)
            try:
                act(dying)
                is_over = True
            except ProcessDied:
                pass
            reader = make()
            terns, knots = texts_found(reader, "tern"), texts_found(reader, "knot")
            assert (terns, knots != []) in (([], True), ([], False), (whole, False))
            stored = reader.core.documents.list(LOCAL_CALLER, BANK, DocumentQuery(9)).documents
            assert len(terns) + len(knots) == sum(each.chunks for each in stored)
            if is_over:
                break
        assert death > 1


def test_documents_of_another_tenant_or_owner_seem_missing(make: Make) -> None:
    server = opened(make, owner_only=True)
    inserted(server, "a", "tern 1.")
    documents = server.core.documents
    for stranger in (Caller(tenant="other", principal="a"), Caller(tenant=LOCAL_CALLER.tenant, principal="b")):
        acts: Sequence[Callable[[], object]] = (
            lambda by=stranger: inserted(server, "a", "knot", by),  # type: ignore[misc]
            lambda by=stranger: documents.get(by, BANK, "a"),  # type: ignore[misc]
            lambda by=stranger: documents.chunks(by, BANK, "a"),  # type: ignore[misc]
            lambda by=stranger: documents.drop(by, BANK, "a"),  # type: ignore[misc]
            lambda by=stranger: documents.cancel(by, BANK, "a"),  # type: ignore[misc]
            lambda by=stranger: documents.set_attributes(by, BANK, "a", {}),  # type: ignore[misc]
            lambda by=stranger: documents.list(by, BANK, DocumentQuery(9)),  # type: ignore[misc]
        )
        for act in acts:
            with pytest.raises(NotFound, match="memory bank 'shore' not found"):
                act()
    assert texts_found(server, "tern") == ["tern 1."]


def test_a_deleted_bank_takes_no_documents(make: Make) -> None:
    server = opened(make)
    document = begun(server, "a")
    ref = ref_of(server)
    server.core.banks.delete(LOCAL_CALLER, BANK, "vector")
    documents = server.core.documents
    for act in (
        lambda: documents.begin(ref, NewDocument("b")),
        lambda: documents.complete(ref, "a", document.insertion_id, chunks_for("a", "tern")),
    ):
        with pytest.raises(NotFound, match="memory bank"):
            act()


def test_five_hundred_parallel_insertions_of_one_chunk_are_all_found_once(make: Make) -> None:
    servers = [opened(make), make()]
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda number: inserted(servers[number % 2], f"d{number}", f"tern {number}"), range(500)))
    question = BankQuestion("tern", None, "keyword", 1_000)
    hits = servers[0].core.searching.search(LOCAL_CALLER, BANK, question, NO_PROVIDER_DATA)
    assert sorted(hit.chunk.document_id for hit in hits) == sorted(f"d{number}" for number in range(500))
    page = servers[1].core.documents.list(LOCAL_CALLER, BANK, DocumentQuery(1_000))
    assert {each.status for each in page.documents} == {"completed"}
    assert len(page.documents) == 500


def test_a_document_dropped_during_a_search_is_in_no_later_one(make: Make) -> None:
    reader, writer = opened(make), make()
    inserted(reader, "a", "tern 1. tern 2. tern 3.")
    filled(writer)

    def drop() -> None:
        writer.core.documents.drop(LOCAL_CALLER, BANK, "a")
        filled(writer)

    reader.store.after(lambda call: call.verb == "range" and call.keys[0].startswith("log:"), drop)
    texts_found(reader, "tern")
    assert texts_found(reader, "tern") == texts_found(make(), "tern") == []


def test_a_bank_deleted_during_an_insertion_stays_empty_under_its_name(make: Make) -> None:
    slow, other = opened(make), make()

    def replace() -> None:
        other.core.banks.delete(LOCAL_CALLER, BANK, "vector")
        other.core.banks.register(LOCAL_CALLER, NewBank(BANK, "vector", "scripted"), NO_PROVIDER_DATA, FIRST)

    slow.store.before(lambda call: call.verb == "write", replace)
    with pytest.raises(NotFound, match="memory bank"):
        inserted(slow, "a", "tern 1.")
    assert texts_found(other, "tern") == listed(other) == []
