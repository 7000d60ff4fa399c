"""A request inserts small files itself where its process does jobs, and leaves the others to their jobs.

Covers: services/memory/documents/ingesting
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
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
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelBusy, StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.memory.documents import Document, NewDocument
from turnstone.services.memory.documents import ingesting

AT_ONCE_S = ingesting.AT_ONCE_WITHIN.total_seconds()


def is_ours(server: Server) -> bool:
    """Return whether requests insert files themselves: on AWS they do not."""
    return not server.core.ingesting._deps.is_claiming


def added(server: Server, *file_ids: str, **more: Any) -> list[Document]:
    news = [NewDocument(file_id, file_id=file_id, **more) for file_id in file_ids]
    return list(server.core.ingesting.add_files(LOCAL_CALLER, BANK, news, FIRST, is_waiting=True))


def insertions_due(server: Server) -> tuple[Job, ...]:
    return server.core.cleaning.due(lambda kind: kind == "ingest_document")


def advance(server: Server, seconds: float) -> None:
    server.clock.advance(seconds)  # type: ignore[attr-defined] # in tests it is a fake


@pytest.fixture
def nudges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the jobs that are sent."""
    names: list[str] = []
    send = ingesting.sent

    def spied(jobs: Any, *some: Job) -> None:
        names.extend(job.name for job in some if job.kind == "ingest_document")
        send(jobs, *some)

    monkeypatch.setattr(ingesting, "sent", spied)
    return names


def test_small_files_are_inserted_and_large_ones_left_to_the_jobs(
    both: Make, monkeypatch: pytest.MonkeyPatch, nudges: list[str]
) -> None:
    server = opened(both, "keyword")
    small, empty = uploaded(server, b"a heron"), uploaded(server, b" ")
    monkeypatch.setattr(ingesting, "MOST_BYTES_AT_ONCE", 10)
    large = uploaded(server, b"several herons")
    documents = added(server, small, empty, large)
    expected = ["completed", "failed", "in_progress"] if is_ours(server) else ["in_progress"] * 3
    assert [document.status for document in documents] == expected
    assert documents == [got(server, file_id) for file_id in (small, empty, large)]
    assert nudges == [each.insertion_id for each in documents if each.status == "in_progress"]
    assert {job.name for job in insertions_due(server)} == set(nudges)
    run(server)
    assert [got(server, each).status for each in (small, empty, large)] == ["completed", "failed", "completed"]
    ended(server)
    assert left_of_insertions(server) == []


def test_the_jobs_thread_finds_nothing_to_do_during_the_request(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(make)
    embeddings = Embeddings(server, monkeypatch)
    file_id = uploaded(server, b"high water")
    seen: list[Any] = []

    def look() -> None:
        again = added(server, file_id)  # another request for the same file
        seen.append((insertions_due(server), [document.status for document in again]))

    embeddings.before = look if is_ours(server) else lambda: None
    (document,) = added(server, file_id)
    if is_ours(server):
        assert seen == [((), ["in_progress"])]
        assert (document.status, document.progress) == ("completed", None)
        assert left_of_insertions(server) == []
    advance(server, AT_ONCE_S + 1)
    run(server)
    assert embeddings.texts == ["high water"]


def unavailable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.core.ingesting._deps.runs, "run", lambda *_: failing(StoreUnavailable("away"))())


def broken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    Embeddings(server, monkeypatch).before = failing(MemoryError())


def busy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    Embeddings(server, monkeypatch).before = failing(ModelBusy("too many requests"))


@pytest.mark.parametrize("failure", [unavailable, broken, busy])
def test_a_failure_leaves_the_file_to_its_job_and_is_no_failure_of_the_request(
    make: Make, failure: Callable[..., None], monkeypatch: pytest.MonkeyPatch, nudges: list[str]
) -> None:
    server = opened(make)
    file_ids = [uploaded(server, b"high water"), uploaded(server, b"low water")]
    with monkeypatch.context() as failed:
        failure(server, failed)
        documents = added(server, *file_ids)
    assert [document.status for document in documents] == ["in_progress"] * 2
    if is_ours(server):
        assert [each.progress.tries for each in documents if each.progress] == [1, 1]
    assert nudges == [document.insertion_id for document in documents]
    advance(server, AT_ONCE_S + 1)
    run(server)
    assert [texts(server, file_id) for file_id in file_ids] == [["high water"], ["low water"]]
    ended(server)
    assert left_of_insertions(server) == []


def test_a_process_that_dies_in_the_request_leaves_the_jobs_of_all_its_files(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened(make)
    file_ids = [uploaded(server, b"high water"), uploaded(server, b"low water")]
    if is_ours(server):
        with monkeypatch.context() as dying:
            Embeddings(server, dying).before = failing(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                added(server, *file_ids)
    else:
        added(server, *file_ids)
    assert [got(server, file_id).status for file_id in file_ids] == ["in_progress"] * 2
    advance(server, AT_ONCE_S + 1)
    run(make())
    assert [texts(server, file_id) for file_id in file_ids] == [["high water"], ["low water"]]


def test_when_the_time_is_over_the_rest_is_left_to_the_jobs(
    make: Make, monkeypatch: pytest.MonkeyPatch, nudges: list[str]
) -> None:
    server = opened(make)
    embeddings = Embeddings(server, monkeypatch)
    embeddings.before = lambda: advance(server, AT_ONCE_S + 1)
    long = uploaded(server, " ".join(f"w{number}" for number in range(50)).encode())  # two tokens each
    other = uploaded(server, b"low water")
    documents = added(server, long, other, chunking=WORDS)
    assert [document.status for document in documents] == ["in_progress"] * 2
    assert nudges == [document.insertion_id for document in documents]
    if is_ours(server):
        assert documents[0].progress is not None
        assert (documents[0].progress.embedded, documents[1].progress) == (64, None)
    embeddings.before = lambda: None
    ended(server)
    assert len(embeddings.texts) == len(texts(server, long)) + len(texts(server, other)) == 102
