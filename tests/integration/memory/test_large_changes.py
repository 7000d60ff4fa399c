"""Large documents, which are segments at once, and segments that are rewritten: neither changes the hits of a search.

Covers: services/memory/folding, services/memory/merging, services/memory/segment_writing, services/memory/indexes,
services/memory/bank_parts, store/memory/contents
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.engine.banks import (
    BANK,
    FIRST,
    contents_of,
    done_jobs,
    found,
    inserted,
    lists_segments,
    manifest_of,
    ref_of,
    registered,
    segments_stored,
    stored,
)
from tests.support.engine.either_store import Make, made_over_dynamodb, made_over_sqlite
from tests.support.engine.harness import Gate, Harness, ProcessDied, Server, StoreCall
from turnstone.adapters.retrieval.segments import NumpySegments
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, StoreUnavailable
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.services.memory import folding, indexes, merging
from turnstone.store.memory import contents
from turnstone.store.memory.contents import BankChange

WORD = "tern"
LARGE = 9  # chunks of a large document, in tests


@pytest.fixture(params=["sqlite", "dynamodb"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make processes over one store: the conformance suite, over both stores in each run."""
    if request.param == "sqlite":
        yield from made_over_sqlite(tmp_path)
    else:
        yield from made_over_dynamodb(request.getfixturevalue("bench_for_make"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store at once, fold, merge and rewrite a few chunks, as a large bank does thousands."""
    monkeypatch.setattr(folding, "FOLDED_FROM", 6)
    monkeypatch.setattr(folding, "AT_ONCE_FROM", LARGE)
    monkeypatch.setattr(folding, "CHUNKS_AT_ONCE", 24)
    monkeypatch.setattr(folding, "CHANGES_AT_ONCE", 4)
    monkeypatch.setattr(folding, "ONE_IN", 2)
    monkeypatch.setattr(folding, "LARGE", 18)
    monkeypatch.setattr(merging, "MERGED", 3)
    monkeypatch.setattr(merging, "SMALLEST", 2)
    monkeypatch.setattr(merging, "LARGE", 18)
    monkeypatch.setattr(merging, "LARGEST", 54)
    monkeypatch.setattr(merging, "PAGES_AT_ONCE", 2)
    monkeypatch.setattr(contents, "CHUNKS_OF_PAGE", 4)
    monkeypatch.setattr(contents, "PAGES_AT_ONCE", 2)
    monkeypatch.setattr(contents, "INDEXES_AT_ONCE", 2)


def change(document_id: str, version: int, chunks: int) -> BankChange:
    """Return a document of so many chunks, each of which names the version."""
    texts = [f"{WORD} {document_id} v{version} {at}" for at in range(chunks)]
    made = tuple(DocumentChunk(document_id, at, text, 4, {"at": at}) for at, text in enumerate(texts))
    return BankChange(document_id, made, {"version": version})


def texts_found(server: Server) -> list[str]:
    """Return the texts of all chunks of the bank, and check that each has its document's version."""
    hits = found(server, WORD, "keyword")
    for hit in hits:
        assert f" v{hit.attributes['version']} " in hit.chunk.text
        assert hit.chunk.text.endswith(f" {hit.chunk.metadata['at']}")
    return sorted(hit.chunk.text for hit in hits)


def texts_of(*changes: BankChange) -> list[str]:
    return sorted(chunk.text for each in changes for chunk in each.chunks or ())


def test_a_large_document_is_one_segment_and_no_record_of_the_log(both: Make) -> None:
    server, other = both(), both()
    registered(server)
    book = change("book", 1, 45)
    stored(server, book)
    view = contents_of(server).view(ref_of(server))
    assert (view.log, [segment.chunks for segment in view.manifest.segments]) == ((), [45])
    assert texts_found(other) == texts_found(server) == texts_of(book)
    only = parsed({"type": "and", "filters": [
        {"type": "eq", "key": "version", "value": 1}, {"type": "gte", "key": "at", "value": 40}]}, ())  # fmt: skip
    assert {hit.chunk.position for hit in found(other, WORD, filters=only)} == set(range(40, 45))


def test_many_documents_of_a_request_are_a_few_segments(both: Make) -> None:
    server = both()
    registered(server)
    changes = [change(f"page{number}", 1, 1 + number % 3) for number in range(20)]
    stored(server, *changes)
    view = contents_of(server).view(ref_of(server))
    assert sum(segment.chunks for segment in view.manifest.segments) + sum(each.size for each in view.log) == 39
    assert texts_found(both()) == texts_of(*changes)


def test_the_newest_form_of_a_document_is_found_whatever_the_sizes_of_its_forms(both: Make) -> None:
    server, reader = both(), both()
    registered(server)
    random = Random(3)
    for version in range(12):
        newest = change("book", version, random.choice((1, 2, LARGE, 30)))
        stored((server, reader)[version % 2], newest)
        assert texts_found(reader) == texts_of(newest)
    stored(server, BankChange("book", None))
    assert texts_found(reader) == []


def test_a_large_change_replaces_many_documents_of_the_log(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    registered(server)
    with monkeypatch.context() as patch:
        patch.setattr(folding, "FOLDED_FROM", 100)
        for number in range(15):
            stored(server, change(f"page{number}", 1, 1))
        assert len(contents_of(server).view(ref_of(server)).log) == 15
    newer = [change(f"page{number}", 2, 1) for number in range(15)]
    stored(server, *newer)
    assert texts_found(make()) == texts_of(*newer)


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_change_during_a_large_one_of_the_same_document_leaves_one_of_them_wholly(make: Make, size: int) -> None:
    slow, other = make(), make()
    registered(slow)
    stored(other, change("book", 0, 2))
    gate = Gate()
    slow.store.before(lists_segments, gate.pass_through)
    large = change("book", 1, LARGE)
    thread = threading.Thread(target=stored, args=(slow, large))
    thread.start()
    gate.wait()
    meanwhile = change("book", 2, size)
    stored(other, meanwhile)
    gate.open()
    thread.join()
    left = texts_found(make())
    assert left in (texts_of(large), texts_of(meanwhile))
    stored(other, *(change(f"more{number}", 1, 3) for number in range(8)))
    assert [text for text in texts_found(make()) if "book" in text] == left


def test_parallel_large_changes_are_all_listed(make: Make) -> None:
    servers = [make() for _ in range(3)]
    registered(servers[0])
    changes = [[change(f"book{number}-{part}", 1, LARGE) for part in range(3)] for number in range(3)]

    def store(server: Server, some: Sequence[BankChange]) -> None:
        for each in some:
            stored(server, each)

    threads = [threading.Thread(target=store, args=pair) for pair in zip(servers, changes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = texts_of(*(each for some in changes for each in some))
    assert texts_found_by_part(make()) == expected


def test_a_merge_is_listed_though_others_add_segments_meanwhile(make: Make) -> None:
    merging_one, other = make(), make()
    registered(merging_one)
    stored(other, change("a", 1, LARGE))
    stored(other, change("b", 1, LARGE))
    listings = count(1)

    def add() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merging, "MERGED", 100)
            stored(other, change("d", 1, LARGE))

    merging_one.store.before(lambda call: lists_segments(call) and next(listings) == 2, add)
    stored(merging_one, change("c", 1, LARGE))
    assert [segment.chunks for segment in manifest_of(other).segments] == [3 * LARGE, LARGE]
    assert texts_found(make()) == texts_of(*(change(name, 1, LARGE) for name in "abcd"))


def deaths(make: Make, prepared: Callable[[Server], None], act: Callable[[Server], None]) -> Iterator[Server]:
    """Yield a process after each death of another one that acted, at each of its writes."""
    for death in count(1):
        first = make()
        registered(first)
        prepared(first)
        dying, writes = make(), count(1)

        def is_last(call: StoreCall, writes: Iterator[int] = writes, at: int = death) -> bool:
            return call.verb in ("write", "clear") and next(writes) == at

        dying.store.after(is_last, dying.store.die)
        try:
            act(dying)
        except ProcessDied:
            yield make()
        else:
            assert death > 5, "the processes died at too few moments"
            return
        first.core.banks.delete(LOCAL_CALLER, BANK, "vector")


def test_a_large_change_that_dies_anywhere_is_there_wholly_or_not(make: Make) -> None:
    before = [change("book", 1, 2), change("other", 1, LARGE), change("third", 1, LARGE)]
    newer = change("book", 2, 15)

    def prepared(server: Server) -> None:
        for each in before:
            stored(server, each)

    for survivor in deaths(make, prepared, lambda dying: stored(dying, newer)):
        assert texts_found(survivor) in (texts_of(*before), texts_of(newer, *before[1:]))
        stored(survivor, newer)
        done_jobs(survivor)
        assert texts_found(make()) == texts_of(newer, *before[1:])
        assert segments_stored(survivor) == {segment.name for segment in manifest_of(survivor).segments}


def test_a_rewrite_that_dies_anywhere_loses_and_leaves_nothing(make: Make) -> None:
    pages = [change(f"page{number}", 1, 3) for number in range(10)]
    newer = [change(f"page{number}", 2, 3) for number in range(7)]

    def prepared(server: Server) -> None:
        stored(server, *pages)
        stored(server, change("book", 1, 17))

    expected = texts_of(*newer, *pages[7:], change("book", 1, 17))
    for survivor in deaths(make, prepared, lambda dying: stored(dying, *newer)):
        stored(survivor, *newer)
        done_jobs(survivor)
        assert texts_found(make()) == expected
        assert segments_stored(survivor) == {segment.name for segment in manifest_of(survivor).segments}


def test_a_death_between_a_payload_and_its_record_leaves_no_payload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = FileBlobStore.put
    for death in count(1):
        with closing(Harness(tmp_path / str(death))) as server:
            registered(server)
            stored(server, change("book", 1, 17))
            puts = count(1)

            def dying(self: FileBlobStore, name: str, body: bytes, puts: Iterator[int] = puts, at: int = death) -> None:
                put(self, name, body)
                if next(puts) == at:
                    raise ProcessDied

            monkeypatch.setattr(FileBlobStore, "put", dying)
            try:
                stored(server, change("book", 2, 17))
                assert death > 5, "the processes died at too few moments"
                return
            except ProcessDied:
                pass
            finally:
                monkeypatch.setattr(FileBlobStore, "put", put)
            done_jobs(server)
            assert texts_found(server) == texts_of(change("book", 1, 17))
            assert len(server.blobs()) == 5 + 1, "a page or an index is left"


def test_replaced_chunks_are_reclaimed_and_do_not_fill_the_bank(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_CHUNKS", 60)
    server = both()
    registered(server)
    for version in range(6):
        newest = [change(f"page{number}", version, 4) for number in range(5)]
        stored(server, change("book", version, 20), *newest)
        server.core.inserting.insert_chunks(LOCAL_CALLER, BANK, [GivenChunk("ruff", {})], NO_PROVIDER_DATA, FIRST)
        assert texts_found(both()) == texts_of(change("book", version, 20), *newest)
        done_jobs(server)
        assert sum(segment.chunks for segment in manifest_of(server).segments) <= 100
    assert segments_stored(server) == {segment.name for segment in manifest_of(server).segments}


def test_a_bank_full_of_living_chunks_refuses_more(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_CHUNKS", 30)
    server = make()
    registered(server)
    stored(server, change("book", 1, 12))
    stored(server, change("book", 2, 12))
    inserted(server, *(f"{number}" for number in range(18)))
    with pytest.raises(InvalidRequest, match="more than 30 chunks"):
        inserted(server, "one more")
    assert manifest_of(server).chunks == 30


def test_dropped_documents_leave_the_list_once_no_segment_has_them(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_DROPPED", 8)
    server = make()
    registered(server)
    book, pages = change("book", 1, 19), [change(f"page{number}", 1, 1) for number in range(20)]
    stored(server, book)
    stored(server, *pages)
    for number in range(0, 20, 2):
        unknown = [BankChange(f"unknown{number} {part}", None) for part in range(4)]
        stored(server, BankChange(f"page{number}", None), *unknown)
        assert sum(len(segment.dropped) for segment in manifest_of(server).segments) <= 8 + 12
    assert texts_found(make()) == texts_of(book, *pages[1::2])


def test_a_segment_whose_removal_has_begun_is_not_listed(make: Make) -> None:
    slow, cleaner = make(), make()
    registered(slow)
    stored(slow, change("book", 1, 2))
    gate = Gate()
    slow.store.before(lists_segments, gate.pass_through)

    def store() -> None:
        with pytest.raises(StoreUnavailable, match="try again"):
            stored(slow, change("book", 2, LARGE))

    thread = threading.Thread(target=store)
    thread.start()
    gate.wait()
    cleaner.store.after(
        lambda call: call.verb == "write" and call.operations[0].key.sk.endswith("index"), cleaner.store.die
    )
    with pytest.raises(ProcessDied):
        done_jobs(cleaner)
    gate.open()
    thread.join()
    assert texts_found(make()) == texts_of(change("book", 1, 2))
    last = make()
    done_jobs(last)
    assert segments_stored(last) == set()


def test_a_bank_that_always_changes_refuses_a_large_change(make: Make) -> None:
    server, other = make(), make()
    registered(server)
    numbers = count(1)
    server.store.before(
        lists_segments, lambda: stored(other, change(f"other{next(numbers)}", 1, LARGE)), times=merging.TRIES
    )
    with pytest.raises(StoreUnavailable, match="try again"):
        stored(server, change("book", 1, LARGE))
    assert [text for text in texts_found(make()) if "book" in text] == []


def test_searches_are_the_same_while_indexes_do_not_fit_in_memory(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    registered(server)
    monkeypatch.setattr(indexes, "MOST_BYTES", 4_000)
    expected: dict[str, BankChange] = {}
    random = Random(1)
    for version in range(15):
        newest = change(f"book{random.randrange(3)}", version, random.choice((1, LARGE)))
        stored(server, newest)
        expected[newest.document_id] = newest
        assert texts_found(server) == texts_of(*expected.values())
        held = server.core.memory_services.searching._deps.indexes
        assert (
            held._bytes
            == sum(size for size, _ in held._held.values())
            <= 4_000 + max(size for size, _ in held._held.values())
        )


def explored(make: Make, seed: int, steps: int) -> None:
    """Change documents at random in two processes, and compare what a third one finds with a model of it."""
    servers, reader, random = [make(), make()], make(), Random(seed)
    registered(servers[0])
    expected: dict[str, BankChange] = {}
    for version in range(steps):
        names = random.sample([f"d{number}" for number in range(8)], random.choice((1, 1, 1, 4)))
        changes = [
            BankChange(name, None) if random.random() < 0.2 else change(name, version, random.choice((0, 1, 2, 5, 10)))
            for name in names
        ]
        stored(random.choice(servers), *changes)
        expected |= {each.document_id: each for each in changes}
        if random.random() < 0.1:
            done_jobs(servers[0])
        if version % 5 == 4:
            assert texts_found_by_part(reader) == texts_of(*expected.values()), f"seed {seed}, step {version}"


def texts_found_by_part(server: Server) -> list[str]:
    """Return the texts of all chunks, more than a search finds at once."""
    parts = [parsed({"type": "eq", "key": "at", "value": at}, ()) for at in range(10)]
    hits = [hit for part in parts for hit in found(server, WORD, "keyword", filters=part)]
    assert all(f" v{hit.attributes['version']} " in hit.chunk.text for hit in hits)
    return sorted(hit.chunk.text for hit in hits)


def test_any_changes_are_found_as_they_were_last_made(both: Make) -> None:
    explored(both, 20, 30)


@pytest.mark.nightly
def test_any_changes_are_found_as_they_were_last_made_explored(make: Make, fresh_seed: int) -> None:
    explored(make, fresh_seed, 200)


def test_a_large_change_and_a_warm_search_take_few_calls_of_the_store(both: Make) -> None:
    server = both()
    registered(server)
    stored(server, change("book", 1, 19))
    found(server, WORD, "keyword")
    calls = server.store.calls
    calls.clear()
    found(server, WORD, "keyword")
    assert [call.verb for call in calls] == ["get", "gather"], "the bank, then its log and list"
    ref = ref_of(server)
    calls.clear()
    server.core.memory_services.folding.store(ref, [change("other", 1, 16)])
    assert [call.verb for call in calls] == ["write", "write", "write", "write", "gather", "write"]
    claim, *pages, index, listing = (call for call in calls if call.verb == "write")
    assert [len(call.operations) for call in (claim, *pages, index, listing)] == [3, 3, 3, 1, 2]


def test_searches_at_the_same_time_read_an_index_once(make: Make) -> None:
    writer, server = make(), make()
    registered(writer)
    stored(writer, change("book", 1, 19))
    gate, seen, views = Gate(), threading.Event(), count(1)
    server.store.before(lambda call: call.keys[:1] != () and call.keys[0].endswith(":index"), gate.pass_through)
    server.store.after(lambda call: call.keys[:1] == ("log:",) and next(views) == 2, seen.set)
    threads = [threading.Thread(target=texts_found, args=(server,)) for _ in range(2)]
    threads[0].start()
    gate.wait()
    threads[1].start()
    assert seen.wait(30)
    gate.open()
    for thread in threads:
        thread.join()
    assert sum(key.endswith(":index") for call in server.store.calls for key in call.keys) == 1


def test_searches_of_a_process_index_each_change_of_the_log_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLDED_FROM", 1_000)
    built: list[str] = []
    build = NumpySegments.build

    def counted(
        self: NumpySegments, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]]
    ) -> bytes:
        built.extend(chunk.text for chunk in chunks)
        return build(self, chunks, attributes)

    monkeypatch.setattr(NumpySegments, "build", counted)
    writer, reader = make(), make()
    registered(writer)
    expected: dict[str, BankChange] = {}
    for number in range(40):
        newest = BankChange("page3", None) if number % 9 == 8 else change(f"page{number % 15}", number, 1)
        stored(writer, newest)
        expected[newest.document_id] = newest
        assert texts_found(reader) == texts_of(*expected.values())
    assert len(built) == len(set(built)) == 36
