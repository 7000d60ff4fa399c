"""Files become documents of banks by jobs: wholly, once, or with a reason, and with their progress until then.

Covers: services/memory/documents/ingesting, services/memory/documents/ingest_runs, store/memory/ingestions,
domain/memory/ingestions
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Harness, Server
from tests.support.engine.insertions import (
    BANK,
    FIRST,
    WORDS,
    Embeddings,
    ended,
    failing,
    got,
    left_of_insertions,
    opened,
    run,
    texts,
    uploaded,
)
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import IdempotencyMismatch, InvalidRequest, ModelBusy, ModelRefused, NotFound
from turnstone.domain.memory.banks import BankKind, Chunking, NewBank
from turnstone.domain.memory.documents import Document, DocumentProblem, IngestProgress, NewDocument
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.memory.vector_stores import FileCounts
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.documents import ingest_runs, ingesting
from turnstone.services.memory.embedding import EMBEDDED_AT_ONCE
from turnstone.services.memory.recalling import RecalledBank

STRANGER = Caller(tenant=LOCAL_CALLER.tenant, principal="stranger")


def added(server: Server, file_id: str, document_id: str = "", **more: Any) -> Document:
    new = NewDocument(document_id or file_id, file_id=file_id, **more)
    return server.core.ingesting.add_file(LOCAL_CALLER, BANK, new, FIRST)


def found(server: Server, text: str) -> list[str]:
    bank = RecalledBank(server.core.banks.visible(LOCAL_CALLER, BANK))
    question = BankQuestion(text, None, "keyword", 100)
    hits = server.core.recalling.recall(LOCAL_CALLER, [bank], question, NO_PROVIDER_DATA)
    return sorted(hit.chunk.document_id for hit in hits)


@pytest.mark.parametrize("kind", ["vector", "keyword"])
def test_a_file_becomes_a_document_that_is_found(both: Make, kind: BankKind) -> None:
    server = opened(both, kind)
    file_id = uploaded(server, b"# Tides\n\nhigh water\n\n## Moon\n\nspring tide", "a.md")
    document = added(server, file_id, attributes={"place": "pier"}, chunking=Chunking(tokens=6, overlap=0))
    assert (document.status, document.file_id) == ("in_progress", file_id)
    assert found(server, "water") == []
    run(server)
    document = got(server, file_id)
    assert (document.status, document.size_bytes, document.progress) == ("completed", 41, None)
    assert document.attributes == {"place": "pier"}
    assert found(server, "water") == [file_id]
    assert any(text.startswith("Tides\n") for text in texts(server, file_id)[1:])  # the heading above a section
    ended(server)
    assert left_of_insertions(server) == []


def test_the_same_file_again_changes_its_attributes_alone(both: Make) -> None:
    server = opened(both)
    file_id = uploaded(server, b"high water")
    first = added(server, file_id)
    assert added(server, file_id) == first
    run(server)
    before = got(server, file_id)
    assert added(server, file_id) == before
    assert added(server, file_id, attributes={"a": 1}).attributes == {"a": 1}
    assert got(server, file_id).insertion_id == before.insertion_id
    assert server.core.cleaning.due() == ()
    assert added(server, file_id, chunking=WORDS).insertion_id != before.insertion_id
    run(server)
    assert texts(server, file_id) == ["high", "water"]


def test_another_file_replaces_the_document_when_it_is_complete(both: Make) -> None:
    server = opened(both)
    added(server, uploaded(server, b"low water"), "tide")
    run(server)
    added(server, uploaded(server, b"spring tide"), "tide")
    assert found(server, "low") == ["tide"]
    run(server)
    assert (found(server, "low"), found(server, "spring")) == ([], ["tide"])


def test_of_two_files_for_one_document_the_later_counts_in_any_order_of_their_jobs(both: Make) -> None:
    server = opened(both)
    added(server, uploaded(server, b"low water"), "tide")
    (older,) = server.core.cleaning.due()
    added(server, uploaded(server, b"spring tide"), "tide")
    newer = next(job for job in server.core.cleaning.due() if job != older)
    for job in (newer, older):
        server.core.cleaning.run_for(job, timedelta(hours=1))
    assert (found(server, "low"), found(server, "spring")) == ([], ["tide"])
    ended(server)
    assert left_of_insertions(server) == []


def test_an_insertion_that_was_replaced_makes_no_vectors(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    added(server, uploaded(server, b"low water"), "tide")
    added(server, uploaded(server, b"spring tide"), "tide")
    run(server)
    assert embeddings.texts == ["spring tide"]


def test_a_run_of_a_function_keeps_others_from_its_job_until_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened(partial(Harness, tmp_path, is_on_lambda=True))
    embeddings = Embeddings(server, monkeypatch)
    added(server, uploaded(server, b"high water"))
    (job,) = server.core.cleaning.due()
    embeddings.before = lambda: server.core.cleaning.run_for(job, timedelta(hours=1))
    server.core.cleaning.run_for(job, timedelta(hours=1))
    assert embeddings.texts == ["high water"]
    assert server.core.cleaning.due() == ()


def test_files_of_a_batch_are_begun_in_few_writes_and_in_order(both: Make) -> None:
    server = opened(both)
    news = [NewDocument(f"{n:03d}", file_id=uploaded(server, b"tide %d" % n)) for n in range(26)]
    before = len([call for call in server.store.calls if call.verb == "write"])
    documents = server.core.ingesting.add_files(LOCAL_CALLER, BANK, news, FIRST)
    assert len([call for call in server.store.calls if call.verb == "write"]) - before == 2
    assert [each.document_id for each in documents] == [new.document_id for new in news]
    run(server)
    assert {got(server, new.document_id).status for new in news} == {"completed"}


def test_a_request_with_a_key_is_done_once(both: Make) -> None:
    server = opened(both)
    keyed = Attempt(fingerprint="one", key="key")
    new = NewDocument("tide", file_id=uploaded(server, b"high water"))
    first = server.core.ingesting.add_file(LOCAL_CALLER, BANK, new, keyed)
    run(server)
    server.core.ingesting.add_file(LOCAL_CALLER, BANK, new._replace(file_id=uploaded(server, b"x")), FIRST)
    again = server.core.ingesting.add_file(LOCAL_CALLER, BANK, new, keyed)
    assert again.insertion_id != first.insertion_id
    with pytest.raises(IdempotencyMismatch):
        server.core.ingesting.add_file(LOCAL_CALLER, BANK, new, Attempt(fingerprint="two", key="key"))


def test_a_file_that_the_caller_may_not_see_is_missing(both: Make) -> None:
    server = opened(both, owner_only=True)
    of_stranger = uploaded(server, b"a secret", caller=STRANGER)
    own = uploaded(server, b"high water")
    for file_id in (of_stranger, "file-none", ""):
        news = [NewDocument("mine", file_id=own), NewDocument("theirs", file_id=file_id)]
        with pytest.raises(NotFound):
            server.core.ingesting.add_files(LOCAL_CALLER, BANK, news, FIRST)
    assert server.core.cleaning.due() == ()
    with pytest.raises(NotFound):
        got(server, "mine")


@pytest.mark.parametrize("kind", ["keyvalue", "graph"])
def test_banks_without_chunks_take_no_files(both: Make, kind: BankKind) -> None:
    server = opened(both, kind)
    with pytest.raises(InvalidRequest, match="takes no files"):
        added(server, uploaded(server, b"high water"))


def test_a_document_that_cannot_be_read_has_a_reason_and_the_others_are_ingested(both: Make) -> None:
    server = opened(both)
    broken = added(server, uploaded(server, b"%PDF-1.7 and no more", "a.pdf"))
    image = added(server, uploaded(server, b"\x89PNG\r\n\x1a\n\x00\x00", "a.png"))
    empty = added(server, uploaded(server, b""))
    good = added(server, uploaded(server, b"high water"))
    run(server)
    problems = [got(server, each.document_id).last_error for each in (broken, image, empty)]
    assert [problem and problem.code for problem in problems] == ["invalid_file", "unsupported_file", "invalid_file"]
    assert got(server, good.document_id).status == "completed"
    ended(server)
    assert left_of_insertions(server) == []


def test_a_file_that_was_deleted_fails_its_document(both: Make) -> None:
    server = opened(both)
    file_id = uploaded(server, b"high water")
    added(server, file_id)
    server.core.files.delete(LOCAL_CALLER, file_id)
    run(server)
    document = got(server, file_id)
    assert document.status == "failed"
    assert document.last_error is not None
    assert "deleted" in document.last_error.message


@pytest.mark.parametrize("size", [1, 200])
def test_a_file_that_is_deleted_while_its_vectors_are_made_is_not_found(
    both: Make, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    server = opened(both)
    file_id = uploaded(server, b"high water " * size)
    added(server, file_id, chunking=WORDS)
    embeddings = Embeddings(server, monkeypatch)

    def delete() -> None:
        embeddings.before = lambda: None
        server.core.files.delete(LOCAL_CALLER, file_id)

    embeddings.before = delete
    run(server)
    document = got(server, file_id)
    assert (document.status, document.chunks) == ("failed", 0)
    assert document.last_error is not None
    assert document.last_error.message == ingest_runs.DELETED
    assert len(embeddings.texts) == min(2 * size, EMBEDDED_AT_ONCE)
    assert found(server, "water") == []
    counts = server.core.vector_stores.get(LOCAL_CALLER, BANK).counts
    assert counts == FileCounts(failed=1)
    ended(server)
    assert left_of_insertions(server) == []


def test_a_document_that_is_removed_ends_its_insertion_with_the_next_request(
    both: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened(both)
    file_id = uploaded(server, b"high water " * 200)
    added(server, file_id, chunking=WORDS)
    embeddings = Embeddings(server, monkeypatch)

    def remove() -> None:
        embeddings.before = lambda: None
        server.core.vector_stores.remove_file(LOCAL_CALLER, BANK, file_id)

    embeddings.before = remove
    run(server)
    assert len(embeddings.texts) == EMBEDDED_AT_ONCE
    ended(server)
    assert (found(server, "water"), left_of_insertions(server), server.core.cleaning.due()) == ([], [], ())


@pytest.mark.parametrize("when", ["before", "while its vectors are made"])
def test_a_bank_that_is_deleted_ends_the_insertion(both: Make, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    server = opened(both)
    added(server, uploaded(server, b"high water"))
    if when == "before":
        server.core.banks.delete(LOCAL_CALLER, BANK)
    else:
        Embeddings(server, monkeypatch).before = lambda: server.core.banks.delete(LOCAL_CALLER, BANK)
    run(server)
    monkeypatch.undo()
    ended(server)
    server.core.banks.register(LOCAL_CALLER, NewBank(BANK, "vector", "scripted"), NO_PROVIDER_DATA, FIRST)
    assert found(server, "water") == []
    assert server.core.cleaning.due() == ()


@pytest.mark.parametrize("act", ["cancelled", "dropped"])
def test_an_insertion_that_is_cancelled_while_it_runs_has_no_effect(
    both: Make, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    server = opened(both)
    file_id = uploaded(server, b"high water")
    added(server, file_id)
    documents = server.core.documents
    stop = documents.cancel if act == "cancelled" else documents.drop
    Embeddings(server, monkeypatch).before = lambda: stop(LOCAL_CALLER, BANK, file_id)
    run(server)
    assert found(server, "water") == []
    ended(server)
    assert left_of_insertions(server) == []


def test_a_failure_that_may_pass_is_tried_again_later(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    embeddings.before = failing(ModelBusy("too many requests"))
    document = added(server, uploaded(server, b"high water"))
    run(server)
    waiting = got(server, document.document_id)
    assert (waiting.status, waiting.last_error) == (
        "in_progress",
        DocumentProblem(code="server_error", message="too many requests"),
    )
    run(server)  # not due
    assert got(server, document.document_id).progress == IngestProgress(tries=1)
    embeddings.before = lambda: None
    ended(server)
    completed = got(server, document.document_id)
    assert (completed.status, completed.last_error) == ("completed", None)


def test_a_failure_that_does_not_pass_ends_after_some_tries(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    embeddings.before = failing(ModelBusy("too many requests"))
    document = added(server, uploaded(server, b"high water"))
    ended(server)
    error = got(server, document.document_id).last_error
    assert error is not None
    assert (error.code, error.message) == ("server_error", "too many requests")
    embeddings.before = failing(ModelRefused("no such input"))
    document = added(server, uploaded(server, b"low water"))
    run(server)
    assert got(server, document.document_id).status == "failed"
    embeddings.before = lambda: None
    assert added(server, document.document_id).status == "in_progress"  # a failed one begins again
    run(server)
    assert got(server, document.document_id).status == "completed"


def test_an_insertion_whose_process_always_dies_ends(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    embeddings.before = failing(MemoryError())
    document = added(server, uploaded(server, b"high water"))
    for _ in range(ingesting.MOST_TRIES):
        with pytest.raises(MemoryError):
            run(server)
        server.clock.advance(7_200)  # type: ignore[attr-defined] # in tests it is a fake
    run(server)
    error = got(server, document.document_id).last_error
    assert error is not None
    assert "interrupted" in error.message
    assert server.core.cleaning.due(lambda kind: kind == "ingest_document") == ()


def test_a_long_insertion_continues_where_it_was_and_shows_its_progress(
    both: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_runs, "PAGE_CHUNKS", 128)
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    words = " ".join(f"w{number}" for number in range(150))  # two tokens each
    document = added(server, uploaded(server, words.encode()), chunking=WORDS)
    seen = []
    for _ in range(10):
        run(server, timedelta(0))  # a batch each
        seen.append(got(server, document.document_id).progress)
        server.clock.advance(61)  # type: ignore[attr-defined] # in tests it is a fake
    assert seen[:5] == [*(IngestProgress(chunks=300, embedded=done) for done in (64, 128, 192, 256)), None]
    assert got(server, document.document_id).chunks == 300
    assert len(embeddings.texts) == 300
    assert texts(server, document.document_id) == embeddings.texts
    ended(server)
    assert left_of_insertions(server) == []


def test_vectors_made_before_a_failure_are_kept(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    document = added(server, uploaded(server, " ".join(f"w{n}" for n in range(50)).encode()), chunking=WORDS)
    embeddings.before = lambda: embeddings.texts and failing(ModelBusy("too many requests"))()
    run(server)
    assert got(server, document.document_id).progress == IngestProgress(chunks=100, embedded=64)
    embeddings.before = lambda: None
    ended(server)
    assert texts(server, document.document_id) == embeddings.texts


def test_vectors_of_another_text_are_not_continued(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(both)
    embeddings = Embeddings(server, monkeypatch)
    words = " ".join(f"w{number}" for number in range(100))
    document = added(server, uploaded(server, words.encode()), chunking=WORDS)
    run(server, timedelta(0))
    chunks_of = ingest_runs._chunks_of

    def as_of_another_version(*given: Any) -> Any:
        return tuple(chunk._replace(text=f"{chunk.text}!") for chunk in chunks_of(*given))

    monkeypatch.setattr(ingest_runs, "_chunks_of", as_of_another_version)
    embeddings.texts.clear()
    ended(server)
    assert embeddings.texts == texts(server, document.document_id)
    assert left_of_insertions(server) == []
