"""Files over either store: whole or not there, whatever dies when, and gone without a trace after their deletion.

Covers: store/files/files, store/files/contents, store/keys/files, services/files/files,
services/cleanup/cleaning, domain/files/stored_files
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.support.engine.either_store import Make, made_over_dynamodb, made_over_sqlite
from tests.support.engine.harness import CountingStore, Gate, ProcessDied, Server, StoreCall, attempt
from tests.support.stores.file_contents import PIECE, SMALL, cleaned, content_of, leftovers, payloads, run_due, shrunk
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import ContentLost, Forbidden, IdempotencyMismatch, NotFound, StoreUnavailable
from turnstone.domain.files.stored_files import BATCH_LIVES_S, UPLOAD_LIVES, FilesQuery, StoredFile
from turnstone.store.files.contents import WHOLE_PART
from turnstone.store.keys.files import piece_key

NAME, TYPE, PURPOSE = "notes.txt", "text/plain", "assistants"
TEAMMATE = Caller(tenant=LOCAL_CALLER.tenant, principal="b")
SIZES = (0, 1, SMALL, SMALL + 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7)


@pytest.fixture(params=["sqlite", "dynamodb"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make processes over one store: the conformance suite, over both stores in each run."""
    if request.param == "sqlite":
        yield from made_over_sqlite(tmp_path)
    else:
        yield from made_over_dynamodb(request.getfixturevalue("bench_for_make"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrunk(monkeypatch)


def noise(size_bytes: int, seed: int = 0) -> bytes:
    return Random(seed).randbytes(size_bytes)


def created(server: Server, content: bytes = b"hello", caller: Caller = LOCAL_CALLER, **more: object) -> StoredFile:
    parts = [content[start : start + 700] for start in range(0, len(content), 700)]
    return server.core.files.create(caller, NAME, TYPE, str(more.pop("purpose", PURPOSE)), parts, **more)  # type: ignore[arg-type]


def read(server: Server, file: StoredFile, caller: Caller = LOCAL_CALLER) -> bytes:
    found, content = server.core.files.open(caller, file.file_id)
    assert found == file
    return b"".join(content)


def listed(server: Server, caller: Caller = LOCAL_CALLER, **query: object) -> list[StoredFile]:
    return list(server.core.files.list(caller, FilesQuery(**query))[1])  # type: ignore[arg-type]


def test_a_file_of_any_size_is_read_back_by_every_process(both: Make) -> None:
    server, other = both(), both()
    for size in SIZES:
        server.clock.advance(0.01)  # type: ignore[attr-defined]
        file = created(server, noise(size))
        assert (file.filename, file.media_type, file.purpose, file.size_bytes) == (NAME, TYPE, PURPOSE, size)
        assert file.expires_at is None
        assert other.core.files.get(LOCAL_CALLER, file.file_id) == file
        assert read(other, file) == noise(size)
        pieces = list(other.core.files.open(LOCAL_CALLER, file.file_id)[1])
        assert [len(piece) for piece in pieces[:-1]] == [PIECE] * (len(pieces) - 1)
    assert [file.size_bytes for file in listed(other, is_newest_first=False)] == list(SIZES)


def test_a_small_file_is_one_write_and_no_payload(make: Make) -> None:
    server = make()
    file = created(server, noise(SMALL))
    assert [call.verb for call in server.store.calls] == ["write"]
    assert payloads(server) == set()
    assert read(server, file) == noise(SMALL)


def test_a_deleted_file_is_gone_at_once_and_leaves_nothing(both: Make) -> None:
    server, other = both(), both()
    kept = created(server, noise(3 * PIECE, 1))
    for size in SIZES:
        file = created(server, noise(size))
        server.core.files.delete(LOCAL_CALLER, file.file_id)
        for missing in (
            lambda file=file: other.core.files.get(LOCAL_CALLER, file.file_id),
            lambda file=file: other.core.files.open(LOCAL_CALLER, file.file_id),
            lambda file=file: other.core.files.delete(LOCAL_CALLER, file.file_id),
        ):
            with pytest.raises(NotFound, match=f"file '{file.file_id}' not found"):
                missing()
    assert listed(other) == [kept]
    cleaned(other)
    assert read(other, kept) == noise(3 * PIECE, 1)
    assert content_of(other) == {kept.content_id}
    server.core.files.delete(LOCAL_CALLER, kept.file_id)
    cleaned(other)
    assert leftovers(other) == []


def test_an_expired_file_is_invisible_and_cleaned_up(both: Make) -> None:
    server = both()
    files = [created(server, noise(size), expires_after_s=3_600) for size in (1, 2 * PIECE)]
    batch = created(server, noise(PIECE), purpose="batch")
    assert batch.expires_at == batch.created_at + timedelta(seconds=BATCH_LIVES_S)
    for file in files:
        assert file.expires_at == file.created_at + timedelta(hours=1)
    server.clock.advance(3_600)  # type: ignore[attr-defined]
    assert listed(server) == [batch]
    for file in files:
        with pytest.raises(NotFound):
            server.core.files.open(LOCAL_CALLER, file.file_id)
        with pytest.raises(NotFound):
            server.core.files.delete(LOCAL_CALLER, file.file_id)
    cleaned(server)
    assert content_of(server) == {batch.content_id}
    server.clock.advance(BATCH_LIVES_S)  # type: ignore[attr-defined]
    cleaned(server)
    assert leftovers(server) == []


Prepare = Callable[[Server], Callable[[Server], object]]


def create(_: Server) -> Callable[[Server], object]:
    return lambda server: created(server, noise(2 * PIECE + 5))


def delete(server: Server) -> Callable[[Server], object]:
    file = created(server, noise(2 * PIECE + 5))
    return lambda dying: dying.core.files.delete(LOCAL_CALLER, file.file_id)


def clean(server: Server) -> Callable[[Server], object]:
    delete(server)(server)
    server.clock.advance(1)  # type: ignore[attr-defined]
    return cleaned


@pytest.mark.parametrize("prepare", [create, delete, clean])
@pytest.mark.parametrize("moment", ["before", "after", "between payload and record"])
def test_whatever_dies_when_leaves_a_whole_file_or_nothing(make: Make, prepare: Prepare, moment: str) -> None:
    """A process dies at each write in turn: before it, after it, or with its payload stored and its record not."""
    for death in count(1):
        first, dying = make(), make()
        act = prepare(first)
        outer = dying.store
        if moment == "between payload and record":
            outer = dying.records._store = CountingStore(dying.records._store)  # type: ignore[attr-defined]
        writes = count(1)

        def is_last(call: StoreCall, writes: Iterator[int] = writes, at: int = death) -> bool:
            return call.verb in ("write", "clear") and next(writes) == at

        (outer.after if moment == "after" else outer.before)(is_last, outer.die)
        try:
            act(dying)
            is_over = True
        except ProcessDied:
            is_over = False
        last = make()
        for file in listed(last):
            assert read(last, file) == noise(2 * PIECE + 5)
        last.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
        cleaned(last)
        files = listed(last)
        assert {file.content_id for file in files} == content_of(last, or_none=True)
        for file in files:
            assert read(last, file) == noise(2 * PIECE + 5)
            last.core.files.delete(LOCAL_CALLER, file.file_id)
        cleaned(last)
        assert leftovers(last) == []
        if is_over:
            break
    assert death > {create: 5, delete: 1, clean: 3}[prepare]


def test_a_failed_store_leaves_nothing_once_it_works_again(make: Make) -> None:
    for number in count(2):
        server = make()

        def fail() -> None:
            raise StoreUnavailable("the disk is full")

        writes = count(1)
        server.store.before(lambda call, writes=writes, at=number: call.verb == "write" and next(writes) == at, fail)
        try:
            file = created(server, noise(2 * PIECE + 5))
        except StoreUnavailable:
            assert listed(server) == []
            cleaned(server)
            assert leftovers(server, jobs=False) == []
        else:
            break
    assert number > 4
    assert read(server, file) == noise(2 * PIECE + 5)


def test_a_file_that_takes_too_long_is_refused_and_removed(make: Make) -> None:
    server, cleaner = make(), make()
    gate = Gate()
    refused: list[Exception] = []

    def parts() -> Iterator[bytes]:
        yield noise(2 * PIECE)
        gate.pass_through()
        yield noise(PIECE)

    def store() -> None:
        try:
            server.core.files.create(LOCAL_CALLER, NAME, TYPE, PURPOSE, parts())
        except StoreUnavailable as late:
            refused.append(late)

    thread = Thread(target=store)
    thread.start()
    gate.wait()
    assert listed(cleaner) == []
    cleaner.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
    cleaned(cleaner)
    gate.open()
    thread.join()
    assert len(refused) == 1
    assert leftovers(cleaner) == []


def test_a_file_that_is_cancelled_before_its_last_write_stays_so(make: Make) -> None:
    server, cleaner = make(), make()

    def clean_up() -> None:
        cleaner.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
        cleaned(cleaner)

    server.store.before(lambda call: any("|files" in operation.key.pk for operation in call.operations), clean_up)
    with pytest.raises(StoreUnavailable, match="took too long"):
        created(server, noise(2 * PIECE))
    assert listed(cleaner) == []
    assert leftovers(cleaner) == []


def test_a_payload_that_comes_during_the_clean_up_is_removed(make: Make) -> None:
    """Its process dies before the record is refused, and no other process has a record of it."""
    dying, cleaner = make(), make()
    inner = dying.records._store = CountingStore(dying.records._store)  # type: ignore[attr-defined]

    def clean_up() -> None:
        cleaner.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
        run_due(cleaner)
        inner.die()

    writes = count(1)
    put = dying.records._blobs.put  # type: ignore[attr-defined]
    late: list[tuple[str, bytes]] = []
    dying.records._blobs.put = lambda *payload: late.append(payload) or put(*payload)  # type: ignore[attr-defined]
    inner.before(lambda call: call.verb == "write" and next(writes) == 3, clean_up)
    with pytest.raises(ProcessDied):
        created(dying, noise(2 * PIECE))
    put(*late[-1])  # it arrives only now
    assert payloads(cleaner) != set()
    cleaned(cleaner)
    assert leftovers(cleaner) == []


def test_a_repeated_request_with_its_key_stores_one_file(both: Make) -> None:
    server, other = both(), both()
    for size in (1, 2 * PIECE):
        server.clock.advance(0.01)  # type: ignore[attr-defined]
        first = created(server, noise(size), attempt=attempt("body", key=f"key {size}"))
        assert created(other, noise(size), attempt=attempt("body", key=f"key {size}")) == first
        with pytest.raises(IdempotencyMismatch):
            created(other, noise(size), attempt=attempt("other body", key=f"key {size}"))
    assert [file.size_bytes for file in listed(server)] == [2 * PIECE, 1]
    assert len(content_of(server)) == 2


def test_two_attempts_at_once_with_one_key_store_one_file(make: Make) -> None:
    server, other = make(), make()
    found: list[StoredFile] = []
    key = attempt("body", key="key")
    server.store.before(
        lambda call: (
            call.verb == "write" and any(op.key.sk == "#" for op in call.operations) and len(call.operations) > 3
        ),
        lambda: found.append(created(other, noise(2 * PIECE), attempt=key)),
    )
    assert [created(server, noise(2 * PIECE), attempt=key)] == found == listed(server)
    cleaned(server)
    assert content_of(server) == {found[0].content_id}


def test_files_of_others_seem_missing(both: Make) -> None:
    server = both(owner_only=True)
    file = created(server, noise(PIECE))
    for stranger in (Caller(tenant="other", principal="a"), TEAMMATE):
        assert listed(server, stranger) == []
        for act in (server.core.files.get, server.core.files.open, server.core.files.delete):
            with pytest.raises(NotFound, match=f"file '{file.file_id}' not found"):
                act(stranger, file.file_id)
    for unknown in ("file-1", "", "\ud800", f"{file.file_id}0", file.content_id):
        with pytest.raises(NotFound):
            server.core.files.get(LOCAL_CALLER, unknown)
    assert read(server, file) == noise(PIECE)


def test_a_teammate_reads_and_does_not_delete(make: Make) -> None:
    server = make()
    file = created(server, noise(PIECE))
    assert read(server, file, TEAMMATE) == noise(PIECE)
    assert listed(server, TEAMMATE) == [file]
    with pytest.raises(Forbidden, match="only its owner"):
        server.core.files.delete(TEAMMATE, file.file_id)
    server.core.files.delete(TEAMMATE.model_copy(update={"roles": ("admin",)}), file.file_id)
    assert listed(server) == []


def test_a_list_is_cut_into_pages_in_either_order(make: Make) -> None:
    server = make()
    files = []
    for number in range(7):
        files.append(created(server, b"x", purpose=("user_data", PURPOSE)[number % 2]))
        server.clock.advance(1)  # type: ignore[attr-defined]
    for is_reverse in (False, True):
        expected = files[::-1] if is_reverse else files
        assert pages_of(server, 3, is_newest_first=is_reverse) == [expected[:3], expected[3:6], expected[6:]]
    assert pages_of(server, 2, is_newest_first=False, purpose=PURPOSE) == [files[1:5:2], files[5:6]]
    assert listed(server, purpose="vision") == []


def pages_of(server: Server, limit: int, **query: object) -> list[Sequence[StoredFile]]:
    pages: list[Sequence[StoredFile]] = []
    after: str | None = None
    while True:
        listing, files = server.core.files.list(LOCAL_CALLER, FilesQuery(limit=limit, after=after, **query))  # type: ignore[arg-type]
        pages.append(list(files))
        if not listing.has_more:
            return pages
        after = pages[-1][-1].file_id


def test_reading_ends_with_an_error_where_the_file_is_deleted_meanwhile(make: Make) -> None:
    server = make()
    file = created(server, noise(5 * PIECE))
    content = server.core.files.open(LOCAL_CALLER, file.file_id)[1]
    assert next(content) == noise(5 * PIECE)[:PIECE]
    server.core.files.delete(LOCAL_CALLER, file.file_id)
    cleaned(server)
    with pytest.raises(NotFound, match=file.file_id):
        list(content)


def test_a_lost_piece_is_an_error_that_names_the_file(make: Make) -> None:
    server = make()
    file = created(server, noise(3 * PIECE))
    record = server.records._store.get(piece_key("local", file.content_id, WHOLE_PART, 1))  # type: ignore[attr-defined]
    name = record.body.decode().split('"')[3]
    server.records._blobs.delete(name)  # type: ignore[attr-defined]
    with pytest.raises(ContentLost, match=file.file_id):
        read(server, file)
    server.core.files.delete(LOCAL_CALLER, file.file_id)
    cleaned(server)
    assert leftovers(server) == []
