"""Banks at a provider: whatever fails or comes in between, searches find all of a document's newest content or nothing.

Covers: services/memory/documents/provided_content, services/memory/documents/text_chunks,
services/memory/provided_search, services/memory/provided_clearing, services/memory/searching, store/memory/provided,
adapters/vectors/configured, services/cleanup/cleaning, tests/fakes/memory/bank_provider.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.memory.bank_provider import BanksInMemory
from tests.support.engine.banks import done_jobs
from tests.support.engine.either_store import Make, made_over_sqlite
from tests.support.engine.harness import Gate, ProcessDied, Server, StoreCall
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import (
    MemoryProviderFailed,
    MemoryProviderMissing,
    NotFound,
    StoreUnavailable,
    TurnstoneError,
    Unsupported,
)
from turnstone.domain.memory.banks import EMBEDDED_PROVIDER, BankRef, Chunking, NewBank
from turnstone.domain.memory.documents import DocumentChunk, NewDocument, TextDocument
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import BankQuestion, Hit, ReciprocalRank
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.memory_providers import Insertion
from turnstone.ports.records import Range
from turnstone.services.memory.documents import provided_content
from turnstone.store.keys.banks import batch_key
from turnstone.store.memory.provided import LATEST_WRITER

BANK, OTHER = "shore", "inland"
FIRST = Attempt(fingerprint="body")
SMALL = Chunking(tokens=2, overlap=0)
OLD, NEW = ["old tern", "old knot"], ["new tern", "new knot", "new ruff"]


class World:
    """Processes over one store and one provider."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.banks = BanksInMemory()
        self.server = self.process()
        self.registered(BANK, "elsewhere")

    def process(self) -> Server:
        server = self._make()
        server.bank_makers["elsewhere"] = lambda: self.banks
        return server

    def registered(self, bank: str, provider_id: str | None, kind: Any = "vector") -> str:
        new = NewBank(bank, kind, "scripted" if kind == "vector" else None, provider_id=provider_id)
        return self.server.core.banks.register(LOCAL_CALLER, new, NO_PROVIDER_DATA, FIRST).provider_id

    def insert(
        self, *texts: str, bank: str = BANK, name: str = "d", by: Server | None = None, **attributes: Any
    ) -> None:
        new = NewDocument(name, attributes, chunking=SMALL)
        documents = (by or self.server).core.documents
        documents.insert(LOCAL_CALLER, bank, [TextDocument(new, " ".join(texts))], NO_PROVIDER_DATA, FIRST)

    def hits(self, *banks: str, by: Server | None = None, **more: Any) -> tuple[Hit, ...]:
        question = BankQuestion("old new tern knot ruff", None, **{"max_chunks": 50, "threshold": -1.0, **more})
        core = (by or self.server).core
        stored = [core.banks.visible(LOCAL_CALLER, each) for each in banks or (BANK,)]
        return core.searching.search_banks(LOCAL_CALLER, stored, question, NO_PROVIDER_DATA)

    def texts(self, by: Server | None = None, **more: Any) -> list[str]:
        """Return the text of each chunk of the document `d`, in its order, of those that are found."""
        found = [hit.chunk for hit in self.hits(by=by, **more) if hit.chunk.document_id == "d"]
        return [chunk.text for chunk in sorted(found, key=lambda chunk: chunk.position)]

    def stored(self) -> list[list[str]]:
        """Return the texts of each insertion that the provider has."""
        return [[chunk.text for chunk in each.chunks] for bank in self.banks.banks.values() for each in bank.values()]

    def clean_up(self) -> None:
        """Do all jobs, those included that wait for the slowest writer."""
        self.server.clock.advance(LATEST_WRITER.total_seconds())  # type: ignore[attr-defined] # in tests it is a fake
        done_jobs(self.server)

    def records(self, beginning: str) -> list[str]:
        stored = self.server.core.banks.visible(LOCAL_CALLER, BANK)
        partition = Range(f"{LOCAL_CALLER.tenant}|bank:{stored.content_id}", start=beginning, end=f"{beginning}~")
        return [record.key.sk for record in self.server.records.range(partition).records]

    def uncounted(self) -> list[str]:
        """Return the records that list insertions which are to be removed."""
        some = batch_key(LOCAL_CALLER.tenant, "content", "some")
        return self.records(some.sk.removesuffix("some"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    for make in made_over_sqlite(tmp_path):
        yield World(make)


def test_documents_are_inserted_replaced_changed_and_dropped(both: Make) -> None:
    world = World(both)
    world.insert(*OLD, lang="sv")
    assert world.texts() == OLD
    world.insert(*NEW, lang="sv")
    assert world.texts() == NEW
    world.insert(*NEW, lang="en")
    swedish = parsed({"type": "eq", "key": "lang", "value": "sv"}, ("filters",))
    assert world.texts(filters=swedish) == []
    world.server.core.documents.set_attributes(LOCAL_CALLER, BANK, "d", {"lang": "sv"})
    assert world.texts(filters=swedish) == NEW
    assert world.stored() == [NEW]
    assert [each.text for each in world.server.core.documents.chunks(LOCAL_CALLER, BANK, "d")] == NEW
    assert world.server.core.documents.get(LOCAL_CALLER, BANK, "d").chunks == 3
    world.server.core.documents.drop(LOCAL_CALLER, BANK, "d")
    assert (world.texts(), world.stored(), world.uncounted(), world.records("at:")) == ([], [], [], [])
    assert world.records("log:") == ["log:~"]  # no content is kept here


def test_chunks_without_documents_are_inserted_and_replaced(world: World) -> None:
    def insert(*texts: str, page: int) -> None:
        given = [GivenChunk(text, {"page": page}) for text in texts]
        world.server.core.inserting.insert_chunks(LOCAL_CALLER, BANK, given, NO_PROVIDER_DATA, FIRST)

    insert(*(f"tern {number}" for number in range(200)), page=1)
    insert("tern 7", page=2)
    found = world.hits(max_chunks=100, filters=parsed({"type": "eq", "key": "page", "value": 2}, ("filters",)))
    assert [hit.chunk.text for hit in found] == ["tern 7"]
    assert len(world.stored()) == 200


def test_a_job_completes_a_begun_insertion(world: World) -> None:
    stored = world.server.core.banks.visible(LOCAL_CALLER, BANK)
    ref, documents = BankRef(LOCAL_CALLER.tenant, stored.content_id, BANK), world.server.core.documents
    begun = documents.begin(ref, NewDocument("d"))
    dimension = stored.bank.space.dimension if stored.bank.space else 0
    chunks = [DocumentChunk("d", 0, "tern", 1, {}, [1.0] * dimension)]
    assert documents.complete(ref, "d", begun.insertion_id, chunks)
    assert world.stored() == [["tern"]]
    with pytest.raises(NotFound):
        documents.complete(ref._replace(content_id="other"), "d", begun.insertion_id, chunks)


def died_at(world: World, number: int, act: Any) -> bool:
    """Let the process die before or after a write, or a call of the provider; return whether there are so many."""
    process, count = world.process(), 0

    def step(_: object) -> None:
        nonlocal count
        count += 1
        if count == number:
            process.store.is_dead = True
            raise ProcessDied

    def any_write(call: StoreCall) -> bool:
        return call.verb == "write"

    process.store.before(any_write, lambda: step(None), times=1_000)
    process.store.after(any_write, lambda: step(None), times=1_000)
    world.banks.before = world.banks.after = step
    try:
        act(process)
    except ProcessDied:
        return True
    finally:
        world.banks.before = world.banks.after = lambda _: None
    return False


def replace(world: World, by: Server) -> None:
    world.insert(*NEW, by=by, lang="en")


def change(_: World, by: Server) -> None:
    by.core.documents.set_attributes(LOCAL_CALLER, BANK, "d", {"lang": "en"})


def drop(_: World, by: Server) -> None:
    by.core.documents.drop(LOCAL_CALLER, BANK, "d")


@pytest.mark.parametrize(("act", "after"), [(replace, NEW), (change, OLD), (drop, [])])
def test_a_crash_between_provider_and_store_shows_one_content_and_the_next_try_heals(
    world: World, act: Any, after: Sequence[str]
) -> None:
    seen = set()
    for number in range(1, 40):
        world.insert(*OLD, lang="sv")
        has_died = died_at(world, number, lambda process: act(world, process))
        found = world.texts()
        assert found in (OLD, after)
        seen.add((tuple(found), has_died))
        if has_died and not (act is drop and found == []):
            act(world, world.server)
        assert world.texts() == after
        world.clean_up()
        assert world.stored() == ([after] if after else [])
        assert (world.texts(), world.uncounted()) == (after, [])
        if not has_died:
            break
    assert number > 5
    assert {(tuple(OLD), True), (tuple(after), False)} <= seen


def test_a_search_during_a_replacement_finds_one_content_whole(world: World) -> None:
    world.insert(*OLD)
    world.server.clock.advance(3_600)  # type: ignore[attr-defined] # in tests it is a fake
    gate = Gate()

    class InParts(BanksInMemory):
        def put(self, ref: BankRef, insertions: Sequence[Insertion]) -> None:
            (one,) = insertions
            self.banks[ref[:2]][one.insertion_id] = one._replace(chunks=one.chunks[:1])
            gate.pass_through()
            self.banks[ref[:2]][one.insertion_id] = one

    parts = InParts()
    parts.banks = world.banks.banks
    other = world.process()
    other.bank_makers["elsewhere"] = lambda: parts
    with ThreadPoolExecutor(1) as threads:
        inserting = threads.submit(world.insert, *NEW, by=other)
        gate.wait()
        searches = []

        def complete(name: str) -> None:
            if name == "search":
                searches.append(name)
                gate.open()
                inserting.result(20)

        world.banks.after = complete
        assert world.texts() == NEW
    assert len(searches) == 2


def test_a_writer_slower_than_the_clean_up_stores_nothing(world: World) -> None:
    world.insert(*OLD)

    def late(name: str) -> None:
        if name == "put":
            world.banks.before = lambda _: None
            world.clean_up()

    world.banks.before = late
    with pytest.raises(StoreUnavailable, match="took so long"):
        world.insert(*NEW)
    assert (world.texts(), world.stored()) == (OLD, [OLD])
    world.insert(*NEW)
    assert (world.texts(), world.stored()) == (NEW, [NEW])


def test_a_bank_deleted_during_an_insertion_leaves_nothing(world: World) -> None:
    def delete(name: str) -> None:
        if name == "put":
            world.banks.before = lambda _: None
            world.server.core.banks.delete(LOCAL_CALLER, BANK)
            done_jobs(world.server)

    world.banks.before = delete
    with pytest.raises(NotFound):
        world.insert(*NEW)
    assert world.stored() == []
    assert world.banks.banks == {}


def test_parallel_writers_of_a_document_leave_one_content(world: World) -> None:
    processes = [world.process() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        every = [threads.submit(world.insert, f"tern {n}", f"knot {n}", by=processes[n]) for n in range(4)]
        for each in every:
            each.result()
    assert world.texts() in [[f"tern {n}", f"knot {n}"] for n in range(4)]
    world.clean_up()
    assert world.stored() == [world.texts()]


def test_content_that_does_not_count_crowds_out_none_that_does(world: World) -> None:
    world.banks.most_hits = 1_000
    world.insert(*OLD)
    (bank,) = world.banks.banks.values()
    (one,) = bank.values()
    for number in range(20):
        bank[str(number)] = one._replace(insertion_id=str(number), document_id="d")
    assert world.texts(max_chunks=2) == OLD


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_provider_that_fails_leaves_all_else_as_it_is(world: World, is_missing: bool) -> None:
    world.registered(OTHER, EMBEDDED_PROVIDER)
    world.insert(*OLD, bank=OTHER)
    world.insert(*OLD)
    world.insert("rail", name="second")

    def fail(_: str) -> None:
        raise MemoryProviderFailed("elsewhere", "is down")

    error: type[TurnstoneError] = MemoryProviderFailed
    if is_missing:
        del world.server.bank_makers["elsewhere"]
        error = MemoryProviderMissing
    else:
        world.banks.before = fail
    documents = world.server.core.documents
    for act in (
        lambda: world.insert(*NEW),
        lambda: world.hits(),
        lambda: world.hits(OTHER, BANK),
        lambda: documents.set_attributes(LOCAL_CALLER, BANK, "d", {"a": 1}),
        lambda: documents.chunks(LOCAL_CALLER, BANK, "d"),
    ):
        with pytest.raises(error, match="'elsewhere'"):
            act()
    assert {hit.bank_id for hit in world.hits(OTHER)} == {OTHER}
    assert documents.get(LOCAL_CALLER, BANK, "d").status == "completed"
    documents.drop(LOCAL_CALLER, BANK, "second")
    world.server.core.banks.delete(LOCAL_CALLER, BANK)
    world.clean_up()
    assert OLD in world.stored()
    world.banks.before = lambda _: None
    world.server.bank_makers["elsewhere"] = lambda: world.banks
    world.clean_up()
    assert world.stored() == []


def test_a_bank_whose_creation_fails_at_its_provider_is_made_with_its_first_content(world: World) -> None:
    def fail(name: str) -> None:
        raise MemoryProviderFailed("elsewhere", "is down")

    world.banks.before = fail
    with pytest.raises(MemoryProviderFailed):
        world.registered(OTHER, "elsewhere")
    world.banks.before = lambda _: None
    assert world.registered(OTHER, "elsewhere") == "elsewhere"
    world.insert(*OLD, bank=OTHER)
    assert {hit.bank_id for hit in world.hits(OTHER)} == {OTHER}


def test_a_bank_keeps_its_provider_whatever_the_operator_chooses_for_others(world: World) -> None:
    with pytest.raises(Unsupported, match="no provider 'typo'; it has: turnstone-memory, elsewhere"):
        world.registered(OTHER, "typo")
    with pytest.raises(Unsupported, match="vectors only"):
        world.registered(OTHER, "elsewhere", "keyword")
    world.server.bank_defaults["vector"] = "elsewhere"
    world.server.bank_makers["alias"] = None
    assert world.registered("one", None) == "elsewhere"
    assert world.registered("two", "faiss") == "elsewhere"
    assert world.registered("three", EMBEDDED_PROVIDER) == EMBEDDED_PROVIDER
    assert world.registered("four", None, "keyvalue") == EMBEDDED_PROVIDER
    assert world.registered("five", "alias") == "alias"
    world.server.bank_defaults.clear()
    assert world.registered("one", None) == "elsewhere"
    world.insert(*OLD, bank="five")
    assert (len(world.hits("five")), world.stored()) == (2, [])


def test_several_stores_are_searched_as_one_corpus(world: World) -> None:
    world.registered(OTHER, EMBEDDED_PROVIDER)
    world.registered("words", EMBEDDED_PROVIDER, "keyword")
    texts = ["tern knot", "tern", "knot ruff", "plover", "tern tern"]
    for number, text in enumerate(texts):
        world.insert(text, bank=(BANK, OTHER)[number % 2], name=f"d{number}")
        world.registered("whole", EMBEDDED_PROVIDER)
        world.insert(text, bank="whole", name=f"d{number}")
    one = [(hit.chunk.chunk_id, pytest.approx(hit.score, abs=1e-5)) for hit in world.hits("whole", mode="vector")]
    both = world.hits(BANK, OTHER)
    assert [(hit.chunk.chunk_id, hit.score) for hit in both] == one
    assert {hit.bank_id for hit in both} == {BANK, OTHER}
    best = [hit.chunk.chunk_id for hit in both[:2]]
    assert [hit.chunk.chunk_id for hit in world.hits(OTHER, BANK, max_chunks=2)] == best
    assert len(world.hits(OTHER, BANK, max_tokens=both[0].chunk.tokens)) == 1
    world.insert("tern knot", bank="words", name="w")
    mixed = world.hits(BANK, "words", max_chunks=2)
    assert [hit.bank_id for hit in mixed] == [BANK, "words"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"mode": "keyword"}, "params.mode: 'elsewhere', which stores 'shore', searches by vectors only"),
        ({"mode": "hybrid"}, "params.mode"),
        ({"ranker": ReciprocalRank()}, "params.ranker"),
        ({"max_chunks": 101}, "params.max_chunks: 'elsewhere', which stores 'shore', finds 100 at most"),
    ],
)
def test_a_question_that_a_provider_cannot_answer_is_refused_by_name(
    world: World, more: dict[str, Any], field: str
) -> None:
    with pytest.raises(Unsupported, match=field):
        world.hits(**more)


def test_a_bank_of_a_provider_has_no_limit_of_chunks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstone.services.memory.folding.MOST_CHUNKS", 2)
    monkeypatch.setattr(provided_content, "LISTED_AT_ONCE", 2)
    world.insert(*NEW)
    given = [GivenChunk(f"tern {number}", {}) for number in range(5)]
    world.server.core.inserting.insert_chunks(LOCAL_CALLER, BANK, given, NO_PROVIDER_DATA, FIRST)
    assert len(world.hits()) == 8
