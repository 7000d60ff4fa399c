"""Memory banks over either store: search results never depend on processes, folds, merges, crashes or clean-up.

Covers: store/memory/banks, store/memory/bank_records, store/memory/contents, store/keys/banks,
services/memory/banks, services/memory/embedding, services/memory/folding, services/memory/indexes,
services/memory/inserting, services/memory/merging, services/memory/searching, services/memory/segment_writing,
services/cleanup/cleaning, domain/memory/insertions
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
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
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Gate, ProcessDied, Server, StoreCall
from turnstone.adapters.retrieval.segments import NumpySegments
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import AlreadyRegistered, InvalidRequest, NotFound
from turnstone.domain.memory.banks import NewBank
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import BankQuestion, SearchMode
from turnstone.domain.memory.ranking import DEFAULT_WEIGHT, Scored, ranked
from turnstone.domain.memory.terms import terms_of
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.ports.memory import SegmentQuestion
from turnstone.ports.records import Range
from turnstone.services.cleanup.cleaning import LATE_PAYLOADS
from turnstone.services.memory import folding
from turnstone.store.memory.contents import BankChange, Unlisted

pytestmark = pytest.mark.usefixtures("small_segments")

WORDS = [
    f"{first}{last}" for first in ("tern", "knot", "plover", "stint", "ruff") for last in ("", "s", "wing", "nest")
]
SEGMENTS = NumpySegments()
QUESTIONS = ("ternwing nest", "plovers", "ruff stint knots", "nothing of it")


def text_of(random: Random) -> str:
    return " ".join(random.choice(WORDS) for _ in range(random.randint(1, 8)))


def defined(server: Server, texts: Sequence[str], question: str, mode: Any) -> list[tuple[str, float]]:
    """The expected hits: those of one segment with all chunks, which the unit tests compare with the definition."""
    embedded = server.core.inferring.embed
    from turnstone.domain.models.inference import TextsToEmbed

    keyed = {GivenChunk(text, {}).key: text for text in texts}
    vectors = embedded(LOCAL_CALLER, TextsToEmbed("scripted", tuple(keyed.values())), NO_PROVIDER_DATA).vectors
    chunks = [
        DocumentChunk(key, 0, text, 0, {}, vector) for (key, text), vector in zip(keyed.items(), vectors, strict=True)
    ]
    (vector,) = embedded(LOCAL_CALLER, TextsToEmbed("scripted", (question,)), NO_PROVIDER_DATA).vectors
    segment = SEGMENTS.open(SEGMENTS.build(chunks))
    terms = terms_of(question) if mode != "vector" else []
    hits = SEGMENTS.hits([segment], SegmentQuestion(terms, [vector if mode != "keyword" else None], 100))
    scored = [Scored(hit.chunk_id, hit.keyword_score, hit.vector_score) for hit in hits]
    best = ranked(scored, mode, BankQuestion("", None).ranker, DEFAULT_WEIGHT)[:50]
    return [(chunks[hits[index].position].text, score) for score, index in best]


def check_same(server: Server, texts: Sequence[str], questions: Sequence[str] = QUESTIONS) -> None:
    for question in questions:
        for mode in ("vector", "keyword", "hybrid"):
            hits = [(hit.chunk.text, hit.score) for hit in found(server, question, mode)]
            expected = defined(server, texts, question, mode)
            assert [score for _, score in hits] == pytest.approx([score for _, score in expected], abs=1e-6)
            assert {text for text, _ in hits} == {text for text, _ in expected}


def test_what_is_found_does_not_depend_on_folds_and_processes(both: Make) -> None:
    one, other = both(), both()
    random, texts = Random(20), []
    registered(one)
    for number in range(24):
        some = [text_of(random) for _ in range(random.randint(1, 4))]
        inserted((one, other)[number % 2], *some)
        texts += some
        if number % 6 == 5:
            check_same((other, one)[number % 2], texts)
    assert 0 < len(manifest_of(one).segments) < 6, "nothing was folded and merged"
    assert {hit.chunk.text for hit in found(other, texts[-1])} >= {texts[-1]}


def test_a_chunk_replaces_its_earlier_form_wherever_that_is(both: Make) -> None:
    server = both()
    registered(server)
    inserted(server, *(f"tern {number}" for number in range(9)), document_id="a")
    inserted(server, "tern 3", document_id="b")
    for page in range(3):
        given = GivenChunk("tern 3", {"page": page}, "a")
        server.core.inserting.insert_chunks(LOCAL_CALLER, BANK, [given], NO_PROVIDER_DATA, FIRST)
        hits = [hit for hit in found(server, "tern 3", "keyword") if hit.chunk.text == "tern 3"]
        assert sorted((hit.chunk.metadata for hit in hits), key=str) == [{"of": "b"}, {"page": page}]
        inserted(server, *(f"knot {page} {number}" for number in range(7)))


def test_a_dropped_document_never_comes_back(both: Make) -> None:
    server = both()
    registered(server)
    texts = [f"plover {number}" for number in range(12)]
    inserted(server, *texts)
    gone = GivenChunk(texts[5], {}).key
    stored(server, BankChange(gone, None))
    for number in range(20):
        check_same(server, [text for text in texts if text != "plover 5"], ["plover 5"])
        texts += (some := [f"ruff {number} {part}" for part in range(3)])
        inserted(server, *some)


def test_attributes_of_documents_filter_and_are_found_with_each_chunk_wherever_that_is(both: Make) -> None:
    server = both()
    registered(server)
    only = parsed({"type": "eq", "key": "page", "value": 2}, ())
    for page in range(4):
        put(server, "report", ["tern 1", "tern 2"], {"page": page}, {"page": -1, "kept": True})
        put(server, f"other {page}", ["tern"], {}, {"page": page})
        hits = [hit for hit in found(server, "tern", "keyword") if hit.chunk.document_id == "report"]
        assert {(hit.chunk.text, hit.attributes["page"]) for hit in hits} == {("tern 1", page), ("tern 2", page)}
        assert all(hit.chunk.metadata == {"page": -1, "kept": True} for hit in hits)
        filtered = [hit.chunk.document_id for hit in found(server, "tern", "keyword", filters=only)]
        assert sorted(filtered) == ["other 2"] * (page >= 2) + ["report"] * 2 * (page == 2)
        inserted(server, *(f"knot {page} {number}" for number in range(7)))
    assert any(segment.chunks > 8 for segment in manifest_of(server).segments), "nothing was merged"


def put(
    server: Server, document_id: str, texts: Sequence[str], attributes: Mapping[str, Any], metadata: Mapping[str, Any]
) -> None:
    """Put a document of several chunks, without vectors."""
    chunks = tuple(DocumentChunk(document_id, at, text, 1, metadata) for at, text in enumerate(texts))
    stored(server, BankChange(document_id, chunks, attributes))


def test_parallel_insertions_are_all_found_once(make: Make) -> None:
    servers = [make(), make()]
    registered(servers[0])

    def work(number: int) -> None:
        for part in range(6):
            inserted(servers[number % 2], f"stint {number} {part}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    hits = [hit.chunk.text for hit in found(servers[0], "stint", "keyword")]
    assert sorted(hits) == sorted(f"stint {number} {part}" for number in range(8) for part in range(6))


def test_a_fold_that_dies_anywhere_loses_and_leaves_nothing(make: Make) -> None:
    first, death, is_over = make(), 0, False
    while not is_over:
        death += 1
        registered(first)
        texts = [f"knot {part} {WORDS[part]}" for part in range(12)]
        inserted(first, *texts[:6])
        inserted(first, *texts[6:])
        assert len(manifest_of(first).segments) == 2
        some = [f"knot {part} {WORDS[part]}" for part in range(10, 16)]
        dying, writes = make(), count(1)

        def is_last(call: StoreCall, writes: Iterator[int] = writes, at: int = death) -> bool:
            return call.verb in ("write", "clear") and next(writes) == at

        dying.store.after(is_last, dying.store.die)
        try:
            inserted(dying, *some)
            is_over = True
        except ProcessDied:
            pass
        check_same(make(), [*texts, *some], ["knot ternwing"])
        last = make()
        inserted(last, *(more := [f"last {part}" for part in range(7)]))
        done_jobs(last)
        check_same(make(), [*texts, *some, *more], ["knot ternwing", "last 3"])
        assert segments_stored(last) == {segment.name for segment in manifest_of(last).segments}
        first.core.banks.delete(LOCAL_CALLER, BANK, "vector")
    assert death > 7, "the processes died at too few moments"


def test_a_process_that_stalls_cannot_list_a_removed_segment(make: Make) -> None:
    slow, other = make(), make()
    registered(slow)
    gate = Gate()

    slow.store.before(lists_segments, gate.pass_through)
    texts = [f"ruff {part}" for part in range(7)]
    thread = threading.Thread(target=inserted, args=(slow, *texts))
    thread.start()
    gate.wait()
    done_jobs(other)
    gate.open()
    thread.join()
    assert manifest_of(other).segments == ()
    assert segments_stored(other) == set()
    check_same(other, texts)


def test_a_clean_up_leaves_the_segment_of_a_running_fold(make: Make) -> None:
    running, cleaner = make(), make()
    registered(running)
    gate = Gate()
    running.store.before(lists_segments, gate.pass_through)
    thread = threading.Thread(target=inserted, args=(running, *(f"ruff {part}" for part in range(7))))
    thread.start()
    gate.wait()
    old = cleaner.clock.now() - LATE_PAYLOADS
    assert contents_of(cleaner).clear_unlisted(ref_of(cleaner), old, 100) is Unlisted.YOUNG
    gate.open()
    thread.join()
    assert {segment.name for segment in manifest_of(cleaner).segments} == segments_stored(cleaner) != set()


def test_a_chunk_replaced_while_it_is_folded_keeps_its_new_form(make: Make) -> None:
    folding_one, other = make(), make()
    registered(other)
    gate = Gate()
    folding_one.store.before(lists_segments, gate.pass_through)
    texts = [f"ruff {part}" for part in range(7)]
    thread = threading.Thread(target=inserted, args=(folding_one, *texts))
    thread.start()
    gate.wait()
    given = GivenChunk(texts[3], {"page": 2})
    other.core.inserting.insert_chunks(LOCAL_CALLER, BANK, [given], NO_PROVIDER_DATA, FIRST)
    gate.open()
    thread.join()
    inserted(other, *(more := [f"stint {part}" for part in range(7)]))
    check_same(make(), [*texts, *more])
    (hit,) = (hit for hit in found(make(), texts[3], "keyword") if hit.chunk.text == texts[3])
    assert hit.chunk.metadata == {"page": 2}


def test_a_clean_up_that_stalls_removes_no_segment_that_is_listed_meanwhile(make: Make) -> None:
    slow, cleaner = make(), make()
    registered(slow)
    listing, clearing = Gate(), Gate()
    slow.store.before(lists_segments, listing.pass_through)
    texts = [f"ruff {part}" for part in range(7)]
    thread = threading.Thread(target=inserted, args=(slow, *texts))
    thread.start()
    listing.wait()
    cleaner.store.before(lambda call: call.verb == "range" and call.keys[0] == "seg:", clearing.pass_through)
    clean_up = threading.Thread(target=done_jobs, args=(cleaner,))
    clean_up.start()
    clearing.wait()
    listing.open()
    thread.join()
    clearing.open()
    clean_up.join()
    assert {segment.name for segment in manifest_of(cleaner).segments} == segments_stored(cleaner) != set()
    check_same(make(), texts)


def test_a_second_user_registers_the_same_bank_without_harm(make: Make) -> None:
    server = make()
    registered(server)
    inserted(server, "tern")
    teammate = Caller(tenant=LOCAL_CALLER.tenant, principal="b")
    registered(server, caller=teammate)
    assert [hit.chunk.text for hit in found(server, "tern")] == ["tern"]
    with pytest.raises(AlreadyRegistered):
        server.core.banks.register(teammate, NewBank(BANK, "keyword"), NO_PROVIDER_DATA, FIRST)


def test_a_full_bank_refuses_more_chunks(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_CHUNKS", 9)
    server = make()
    registered(server)
    inserted(server, *(texts := [f"ruff {part}" for part in range(9)]))
    with pytest.raises(InvalidRequest, match="more than 9 chunks"):
        inserted(server, "stint")
    check_same(server, texts)


def test_a_search_during_a_fold_finds_what_was_folded(make: Make) -> None:
    reader, writer = make(), make()
    registered(writer)
    inserted(writer, *(texts := [f"tern {part}" for part in range(3)]))

    def fold() -> None:
        inserted(writer, *(f"knot {part}" for part in range(4)))
        assert contents_of(writer).view(ref_of(writer)).log == ()

    reader.store.before(lambda call: call.verb == "range" and call.keys[0].startswith("log:"), fold)
    assert sorted(hit.chunk.text for hit in found(reader, "tern", "keyword")) == texts


def test_a_search_during_a_merge_and_its_clean_up_finds_everything(make: Make) -> None:
    reader, writer = make(), make()
    registered(writer)
    texts = [f"tern {part}" for part in range(7)]
    inserted(writer, *texts)

    def merge() -> None:
        for number in range(3):
            texts.extend(some := [f"tern {number} {part}" for part in range(7)])
            inserted(writer, *some)
        done_jobs(writer)

    reader.store.after(lambda call: call.verb == "range" and call.keys[0].startswith("log:"), merge)
    hits = [hit.chunk.text for hit in found(reader, "tern", "keyword")]
    assert sorted(hits) == sorted(texts)


def test_a_deleted_bank_is_gone_for_every_process_and_leaves_nothing(both: Make) -> None:
    server, other = both(), both()
    registered(server)
    inserted(server, *(f"tern {part}" for part in range(9)))
    ref = ref_of(server)
    found(other, "tern")
    server.core.banks.delete(LOCAL_CALLER, BANK, "vector")
    with pytest.raises(NotFound):
        found(other, "tern")
    with pytest.raises(NotFound):
        inserted(other, "tern")
    with pytest.raises(NotFound):
        contents_of(other).append(ref, [BankChange("late", None)], lambda: "1")
    registered(other)
    assert found(server, "tern") == ()
    inserted(other, "kept")
    done_jobs(server)
    assert [hit.chunk.text for hit in found(server, "kept")] == ["kept"]
    assert server.records.range(Range(f"{ref.tenant}|bank:{ref.content_id}")).records == ()


def test_a_bank_of_another_tenant_or_owner_seems_missing(make: Make) -> None:
    server = make(owner_only=True)
    registered(server)
    inserted(server, "tern")
    for stranger in (Caller(tenant="other", principal="a"), Caller(tenant=LOCAL_CALLER.tenant, principal="b")):
        assert server.core.banks.list(stranger, "vector") == ()
        for act in (
            lambda stranger: server.core.banks.get(stranger, BANK, "vector"),
            lambda stranger: server.core.banks.delete(stranger, BANK, "vector"),
            lambda stranger: server.core.searching.search(stranger, BANK, BankQuestion("tern", None), NO_PROVIDER_DATA),
            lambda stranger: server.core.inserting.insert_chunks(
                stranger, BANK, [GivenChunk("a", {})], NO_PROVIDER_DATA, FIRST
            ),
        ):
            with pytest.raises(NotFound, match="memory bank 'shore' not found"):
                act(stranger)
    assert len(found(server, "tern")) == 1


def test_several_banks_are_searched_as_one(make: Make) -> None:
    server = make()
    texts = [f"{word} {other}" for word in WORDS[:6] for other in WORDS[3:9]]
    for bank in (BANK, "dunes", "marsh"):
        registered(server, bank)
    inserted(server, *texts)
    for index, text in enumerate(texts):
        inserted(server, text, bank=("dunes", "marsh")[index % 2])
    parts = [server.core.banks.visible(LOCAL_CALLER, bank) for bank in ("dunes", "marsh")]
    modes: tuple[SearchMode, ...] = ("vector", "keyword", "hybrid")
    for mode in modes:
        question = BankQuestion("plover ternwing", None, mode, 12)
        whole = server.core.searching.search(LOCAL_CALLER, BANK, question, NO_PROVIDER_DATA)
        some = server.core.searching.search_banks(LOCAL_CALLER, parts, question, NO_PROVIDER_DATA)
        assert [(hit.chunk.text, hit.score) for hit in some] == [
            (hit.chunk.text, pytest.approx(hit.score, abs=1e-6)) for hit in whole
        ]
        assert {hit.bank_id for hit in some} == {"dunes", "marsh"}


def test_hits_end_before_the_limit_of_tokens(make: Make) -> None:
    server = make()
    registered(server)
    inserted(server, *(f"ruff stint {part}" for part in range(9)))
    every = found(server, "ruff", "keyword")
    tokens = every[0].chunk.tokens
    assert found(server, "ruff", "keyword", max_tokens=3 * tokens + tokens - 1) == every[:3]
    assert found(server, "ruff", "keyword", max_tokens=3 * tokens) == every[:3]
