"""Vector stores over both stores: counts from their documents, pages without gaps, batches, searches.

Covers: services/memory/documents/vector_stores, services/memory/documents/file_batches, store/memory/file_batches,
domain/memory/vector_stores
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import IdempotencyMismatch, InvalidRequest, NotFound
from turnstone.domain.memory.banks import NewBank
from turnstone.domain.memory.documents import DocumentQuery, NewDocument, TextDocument
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.memory.vector_stores import AUTO, PagedEntries
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt

ONCE = Attempt(fingerprint="body")
KEYED = Attempt(fingerprint="body", key="a-key")
NEW = NewBank("", "vector", "scripted", AUTO)
FOREIGNER = Caller(tenant="other", principal="ann")


def created(server: Server, *file_ids: str, attempt: Attempt = ONCE) -> str:
    return server.core.vector_stores.create(LOCAL_CALLER, NEW, file_ids, NO_PROVIDER_DATA, attempt).bank.bank_id


def uploaded(server: Server, content: str, name: str = "a.txt") -> str:
    file = server.core.files.create(LOCAL_CALLER, name, "text/plain", "assistants", [content.encode()])
    return file.file_id


def added(server: Server, store: str, *file_ids: str, **more: Any) -> None:
    news = [NewDocument(file_id, file_id=file_id, **more) for file_id in file_ids]
    server.core.vector_stores.add_files(LOCAL_CALLER, store, news, ONCE)


def run(server: Server) -> None:
    for job in server.core.cleaning.due(lambda kind: kind == "ingest_document"):
        server.core.cleaning.run_for(job, timedelta(hours=1))


def counts(server: Server, store: str) -> tuple[int, ...]:
    return tuple(server.core.vector_stores.get(LOCAL_CALLER, store).counts)


def found(server: Server, store: str, *texts: str, filters: Any = None) -> list[tuple[str, str]]:
    chosen = None if filters is None else parsed(filters, ("filters",))
    questions = [BankQuestion(text, None, "keyword", 5, chosen) for text in texts]
    hits = server.core.vector_stores.search(LOCAL_CALLER, store, questions, NO_PROVIDER_DATA)
    return [(hit.filename, hit.hit.chunk.text) for hit in hits]


def test_counts_are_those_of_the_documents_at_any_time(both: Make) -> None:
    server = both()
    heron, empty = uploaded(server, "a heron"), uploaded(server, " ")
    store = created(server, heron, empty)
    assert counts(server, store) == (2, 0, 0, 0, 0)
    run(server)
    assert counts(server, store) == (0, 1, 1, 0, len("a heron"))
    server.core.vector_stores.remove_file(LOCAL_CALLER, store, heron)
    assert counts(server, store) == (0, 0, 1, 0, 0)
    assert server.core.files.get(LOCAL_CALLER, heron).file_id == heron


def made_for_llama_stack(server: Server, *file_ids: str, attempt: Attempt = ONCE) -> str:
    given = LOCAL_CALLER, NEW, file_ids, NO_PROVIDER_DATA, attempt
    return server.core.vector_stores.create(*given, is_waiting=True).bank.bank_id


def statuses(server: Server, store: str) -> dict[str, str]:
    page = server.core.vector_stores.files(LOCAL_CALLER, store, DocumentQuery(20, None, False, None))
    return {document.document_id: document.status for document in page.documents}


def test_a_store_of_llama_stack_is_whole_at_once(both: Make) -> None:
    server = both()
    heron, empty = uploaded(server, "a heron"), uploaded(server, " ")
    for attempt in (KEYED, KEYED):
        store = made_for_llama_stack(server, heron, empty, attempt=attempt)
        ended = "in_progress" if server.core.ingesting._deps.is_claiming else "completed"
        assert statuses(server, store) == {heron: ended, empty: ended.replace("completed", "failed")}
    run(server)
    assert counts(server, store)[1:4] == (1, 1, 0)
    assert found(server, store, "heron") == [("a.txt", "a heron")]
    with pytest.raises(NotFound):
        made_for_llama_stack(server, heron, "file-gone")


@pytest.mark.parametrize("days", [None, 3])
def test_a_change_is_a_use_also_of_a_store_that_never_expires(both: Make, days: int | None) -> None:
    server = both()
    before = server.core.vector_stores.get(LOCAL_CALLER, created(server))
    assert before.used_at is None
    server.clock.advance(7_200)
    expiry = {"expires_after_s": days and days * 86_400, "name": "waders"}
    store_id = before.bank.bank_id
    changed = server.core.vector_stores.update(LOCAL_CALLER, store_id, lambda bank: bank.model_copy(update=expiry))
    assert changed.used_at is not None
    assert changed.used_at - before.bank.created_at >= timedelta(hours=2)
    assert changed.ends_at == (None if days is None else changed.used_at + timedelta(days=days))
    again = server.core.vector_stores.get(LOCAL_CALLER, store_id)
    assert (again.bank, again.used_at) == (changed.bank, changed.used_at.replace(microsecond=0))


def test_a_store_with_many_files_and_a_list_of_stores_are_read_in_two_round_trips(both: Make) -> None:
    server = both()
    heron = uploaded(server, "a heron")
    store, *_ = (created(server) for _ in range(20))
    added(server, store, heron)
    for begin in range(0, 300, 100):
        news = [NewDocument(f"d{begin + number}", file_id=heron) for number in range(100)]
        server.core.vector_stores.add_files(LOCAL_CALLER, store, news, ONCE)
    calls = server.store.calls
    calls.clear()
    assert counts(server, store)[0] == 301
    assert [call.verb for call in calls] == ["get", "gather"], "the bank, then the documents up to a megabyte"
    calls.clear()
    assert len(server.core.vector_stores.list(LOCAL_CALLER, PagedEntries(20)).stores) == 20
    assert [(call.verb, len(call.keys)) for call in calls] == [("range", 1), ("gather", 20)]


def test_a_repeated_creation_makes_one_store_with_its_files_once(both: Make) -> None:
    server = both()
    heron = uploaded(server, "a heron")
    assert len({created(server, heron, attempt=KEYED) for _ in range(2)}) == 1
    assert len(server.core.cleaning.due(lambda kind: kind == "ingest_document")) == 1
    with pytest.raises(IdempotencyMismatch):
        created(server, heron, attempt=Attempt(fingerprint="another", key="a-key"))


def test_a_missing_file_leaves_no_store_and_no_batch(both: Make) -> None:
    server = both()
    heron = uploaded(server, "a heron")
    with pytest.raises(NotFound):
        created(server, heron, "file-unknown")
    assert server.core.vector_stores.list(LOCAL_CALLER, PagedEntries(10)).stores == ()
    store = created(server)
    with pytest.raises(NotFound):
        added(server, store, heron, "file-unknown")
    assert counts(server, store)[:2] == (0, 0)


@pytest.mark.parametrize("is_newest_first", [True, False])
def test_pages_skip_no_store_though_each_is_deleted_when_it_was_read(both: Make, *, is_newest_first: bool) -> None:
    server = both()
    stores = [created(server) for _ in range(7)]
    server.core.banks.register(LOCAL_CALLER, NewBank("chosen", "vector", "scripted"), NO_PROVIDER_DATA, ONCE)
    read: list[str] = []
    after = None
    while True:
        query = PagedEntries(2, after, is_newest_first=is_newest_first)
        page = server.core.vector_stores.list(LOCAL_CALLER, query)
        names = [state.bank.bank_id for state in page.stores]
        read += names
        after = names[-1] if names[-1] != "chosen" else names[0]
        for name in names:
            if name != "chosen":
                server.core.vector_stores.delete(LOCAL_CALLER, name)
        if not page.has_more:
            break
    assert set(read) == {*stores, "chosen"}


def test_pages_before_a_store_are_those_that_lead_to_it(both: Make) -> None:
    server = both()
    stores = []
    for _ in range(5):
        stores.append(created(server))
        server.clock.advance(1)  # type: ignore[attr-defined] # in tests it is a fake

    def listed(**query: Any) -> tuple[list[str], bool]:
        page = server.core.vector_stores.list(LOCAL_CALLER, PagedEntries(**query))
        return [state.bank.bank_id for state in page.stores], page.has_more

    newest = stores[::-1]
    assert listed(limit=2, before=newest[4]) == (newest[2:4], True)
    assert listed(limit=4, before=newest[4]) == (newest[:4], False)
    assert listed(limit=5, after=newest[0], before=newest[4]) == (newest[1:4], False)
    assert listed(limit=1, after=stores[0], before=stores[3], is_newest_first=False) == (stores[1:2], True)
    with pytest.raises(InvalidRequest, match="after"):
        listed(limit=1, after="no-store")


def test_pages_skip_no_file_though_each_is_removed_when_it_was_read(both: Make) -> None:
    server = both()
    files = [uploaded(server, f"heron {number}") for number in range(7)]
    store = created(server, *files)
    run(server)
    read: list[str] = []
    after = None
    for _ in range(10):
        page = server.core.vector_stores.files(LOCAL_CALLER, store, DocumentQuery(3, after, is_newest_first=True))
        for document in page.documents:
            read.append(document.document_id)
            server.core.vector_stores.remove_file(LOCAL_CALLER, store, document.document_id)
        after = read[-1]
        if not page.has_more:
            break
    assert read == files[::-1]


def test_pages_before_a_file_are_those_that_lead_to_it(both: Make) -> None:
    server = both()
    files = [uploaded(server, f"heron {number}") for number in range(5)]
    store = created(server, *files)

    def listed(**query: Any) -> tuple[list[str], bool]:
        page = server.core.vector_stores.files(LOCAL_CALLER, store, DocumentQuery(**query))
        return [document.document_id for document in page.documents], page.has_more

    assert listed(limit=2, before=files[4]) == (files[2:4], True)
    assert listed(limit=2, before=files[1], is_newest_first=True) == (files[3:1:-1], True)
    assert listed(limit=5, after=files[0], before=files[3]) == (files[1:3], False)
    assert listed(limit=5, before=files[3], status="completed") == ([], False)
    with pytest.raises(InvalidRequest, match="before"):
        listed(limit=1, before="no-file")


def test_a_batch_counts_its_own_files_and_cancels_those_in_progress(both: Make) -> None:
    server = both()
    early, heron, granite = (uploaded(server, text) for text in ("early", "a heron", "granite"))
    store = created(server, early)
    run(server)
    news = [NewDocument(file_id, file_id=file_id) for file_id in (early, heron, granite, heron)]
    batches = [server.core.file_batches.create(LOCAL_CALLER, store, news, KEYED) for _ in range(2)]
    assert batches[0] == batches[1]
    batch, batch_counts = batches[0]
    assert (batch.file_ids, tuple(batch_counts)[:4]) == ((early, heron, granite), (2, 1, 0, 0))
    assert server.core.file_batches.cancel(LOCAL_CALLER, store, batch.batch_id).counts.cancelled == 2
    run(server)
    assert tuple(server.core.file_batches.get(LOCAL_CALLER, store, batch.batch_id).counts)[:4] == (0, 1, 0, 2)
    assert found(server, store, "heron", "early") == [("a.txt", "early")]
    server.core.vector_stores.remove_file(LOCAL_CALLER, store, heron)
    assert server.core.file_batches.create(LOCAL_CALLER, store, news, KEYED).batch == batch
    pages = [
        server.core.file_batches.files(LOCAL_CALLER, store, batch.batch_id, PagedEntries(1, after))
        for after in (None, granite, heron)
    ]
    assert [[each.document_id for each in page.documents] for page in pages] == [[granite], [early], [early]]
    with pytest.raises(NotFound):
        server.core.file_batches.get(FOREIGNER, store, batch.batch_id)
    with pytest.raises(NotFound):
        server.core.file_batches.get(LOCAL_CALLER, created(server), batch.batch_id)


def test_filters_follow_changed_attributes_at_once_and_results_keep_the_names_of_deleted_files(both: Make) -> None:
    server = both()
    store = created(server)
    heron, granite = uploaded(server, "grey heron", "heron.txt"), uploaded(server, "grey granite", "granite.txt")
    added(server, store, heron, attributes={"year": 2025})
    added(server, store, granite, attributes={"year": 2026})
    run(server)
    of_2026 = {"type": "gte", "key": "year", "value": 2026}
    assert found(server, store, "grey", filters=of_2026) == [("granite.txt", "grey granite")]
    server.core.vector_stores.set_attributes(LOCAL_CALLER, store, heron, {"year": 2026})
    server.core.files.delete(LOCAL_CALLER, heron)
    both_found = found(server, store, "grey", "heron", "granite", filters=of_2026)
    assert sorted(both_found) == [("granite.txt", "grey granite"), ("heron.txt", "grey heron")]


def test_a_bank_of_another_kind_or_caller_is_no_vector_store(both: Make) -> None:
    server = both()
    server.core.banks.register(LOCAL_CALLER, NewBank("words", "keyword"), NO_PROVIDER_DATA, ONCE)
    store, heron = created(server), uploaded(server, "a heron")
    text = TextDocument(NewDocument(heron), "a heron")
    server.core.documents.insert(LOCAL_CALLER, "words", [text], NO_PROVIDER_DATA, ONCE)
    for caller, name in ((LOCAL_CALLER, "words"), (FOREIGNER, store)):
        for act in (
            lambda caller, each: server.core.vector_stores.get(caller, each),
            lambda caller, each: server.core.vector_stores.files(caller, each, DocumentQuery(1)),
            lambda caller, each: server.core.vector_stores.file(caller, each, heron),
            lambda caller, each: server.core.vector_stores.delete(caller, each),
            lambda caller, each: server.core.vector_stores.add_files(caller, each, [NewDocument(heron)], ONCE),
        ):
            with pytest.raises(NotFound):
                act(caller, name)
