"""Uploads over either store: parts in any order become one file, byte by byte, or nothing.

Covers: store/files/uploads, store/files/contents, services/files/uploads, services/cleanup/cleaning
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import md5
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.support.engine.either_store import Make, made_over_dynamodb, made_over_sqlite
from tests.support.engine.harness import CountingStore, ProcessDied, Server, StoreCall, attempt
from tests.support.stores.file_contents import PIECE, cleaned, content_of, keys, leftovers, shrunk
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import Forbidden, IdempotencyMismatch, InvalidRequest, NotFound
from turnstone.domain.files.stored_files import UPLOAD_LIVES, FilesQuery, FileUpload, NewUpload, StoredFile
from turnstone.store.files.uploads import KEPT_FOR

TEAMMATE = Caller(tenant=LOCAL_CALLER.tenant, principal="b")
CONTENT = Random(7).randbytes(4 * PIECE + 9)
PARTS = [CONTENT[start : start + PIECE + 3] for start in range(0, len(CONTENT), PIECE + 3)]


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


def begun(server: Server, size_bytes: int = len(CONTENT), **more: object) -> str:
    new = NewUpload("notes.bin", "application/x-notes", "user_data", size_bytes, **more)  # type: ignore[arg-type]
    return server.core.uploads.create(LOCAL_CALLER, new, attempt()).upload_id


def added(server: Server, upload_id: str, part: bytes, **more: object) -> str:
    by = attempt(**more)  # type: ignore[arg-type]
    return server.core.uploads.add_part(LOCAL_CALLER, upload_id, len(part), [part], by).part_id


def completed(server: Server, upload_id: str, part_ids: list[str], digest: str | None = None) -> FileUpload:
    return server.core.uploads.complete(LOCAL_CALLER, upload_id, part_ids, digest)


def cancelled(server: Server, upload_id: str) -> FileUpload:
    return server.core.uploads.cancel(LOCAL_CALLER, upload_id)


def files_of(server: Server) -> list[StoredFile]:
    return list(server.core.files.list(LOCAL_CALLER, FilesQuery())[1])


def read(server: Server, file: StoredFile | None) -> bytes:
    assert file is not None
    return b"".join(server.core.files.open(LOCAL_CALLER, file.file_id)[1])


def test_parts_out_of_order_one_of_them_twice_become_the_file(both: Make) -> None:
    server, other = both(), both()
    upload_id = begun(server, expires_after_s=7_200)
    positions = [3, 0, 2, 0, 1]
    ids = {position: added((server, other)[position % 2], upload_id, PARTS[position]) for position in positions}
    with pytest.raises(InvalidRequest, match=f"together, and the upload was created for {len(CONTENT)}") as missing:
        completed(server, upload_id, [ids[0], ids[1], ids[2]])
    assert missing.value.location == ("part_ids",)
    assert files_of(server) == []
    server.clock.advance(60)  # type: ignore[attr-defined]
    upload = completed(other, upload_id, [ids[position] for position in range(4)], md5(CONTENT).hexdigest().upper())
    assert upload.status == "completed"
    assert upload.file is not None
    assert (upload.file.filename, upload.file.media_type, upload.file.purpose, upload.file.size_bytes) == (
        *("notes.bin", "application/x-notes", "user_data"),
        len(CONTENT),
    )
    assert upload.file.created_at >= upload.created_at + timedelta(seconds=60)
    assert upload.file.expires_at == upload.file.created_at + timedelta(hours=2)
    assert files_of(server) == [upload.file]
    assert read(server, upload.file) == CONTENT
    server.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
    cleaned(server)
    stored = {sk.split(":")[1] for pk, sk in keys(server) if "|file:" in pk and ":" in sk}
    assert stored == set(ids.values()), "the part that was sent twice is stored once only"
    assert read(other, upload.file) == CONTENT
    server.core.files.delete(LOCAL_CALLER, upload.file.file_id)
    cleaned(server)
    server.clock.advance(7_200)  # type: ignore[attr-defined]
    cleaned(server)
    assert leftovers(server) == []


def test_an_empty_file_has_no_parts(make: Make) -> None:
    server = make()
    upload = completed(server, begun(server, 0), [])
    assert read(server, upload.file) == b""


def test_parts_are_taken_in_the_order_of_their_completion(make: Make) -> None:
    server = make()
    upload_id = begun(server)
    ids = [added(server, upload_id, part) for part in PARTS]
    upload = completed(server, upload_id, [ids[1], ids[0], *ids[2:]])
    assert read(server, upload.file) == b"".join([PARTS[1], PARTS[0], *PARTS[2:]])


def test_a_completion_that_does_not_fit_is_refused_by_its_field(make: Make) -> None:
    server = make()
    upload_id, other_id = begun(server), begun(server)
    ids = [added(server, upload_id, part) for part in PARTS]
    foreign = added(server, other_id, PARTS[0])
    reversed_digest = md5(CONTENT[::-1]).hexdigest()
    for part_ids, digest, location, problem in (
        ([*ids[:-1], foreign], None, ("part_ids", len(ids) - 1), "has no part"),
        ([*ids, "part_1"], None, ("part_ids", len(ids)), "has no part"),
        ([*ids, ids[0]], None, ("part_ids", len(ids)), "a second time"),
        (ids[1:], None, ("part_ids",), "bytes together"),
        ([], None, ("part_ids",), "0 bytes together"),
        (ids, reversed_digest, ("md5",), f"have {md5(CONTENT).hexdigest()}"),
    ):
        with pytest.raises(InvalidRequest, match=problem) as refused:
            completed(server, upload_id, part_ids, digest)
        assert refused.value.location == location
    assert files_of(server) == []
    assert read(server, completed(server, upload_id, ids).file) == CONTENT


def test_a_part_of_a_wrong_size_is_refused(make: Make) -> None:
    server = make()
    upload_id = begun(server, 5)
    for part in (b"", b"123456"):
        with pytest.raises(InvalidRequest, match="1 to 5 bytes") as refused:
            added(server, upload_id, part)
        assert refused.value.location == ("data",)


def test_a_repeated_completion_returns_the_same_file(both: Make) -> None:
    server, other = both(), both()
    upload_id = begun(server)
    ids = [added(server, upload_id, part) for part in PARTS]
    first: list[FileUpload] = []
    server.store.before(
        lambda call: call.verb == "write", lambda: first.append(completed(other, upload_id, ids))
    )  # another process is faster
    assert [completed(server, upload_id, ids)] == first == [completed(other, upload_id, ids)]
    assert files_of(server) == [first[0].file]
    for act in (
        lambda: completed(server, upload_id, ids[::-1]),
        lambda: added(server, upload_id, PARTS[0]),
        lambda: cancelled(server, upload_id),
    ):
        with pytest.raises(InvalidRequest, match="is completed; create a new one"):
            act()


def test_a_cancelled_upload_takes_nothing_and_leaves_nothing(both: Make) -> None:
    server, other = both(), both()
    upload_id = begun(server)
    ids = [added(server, upload_id, part) for part in PARTS]
    assert cancelled(other, upload_id).status == "cancelled"
    assert cancelled(server, upload_id).status == "cancelled"
    for act in (lambda: completed(server, upload_id, ids), lambda: added(server, upload_id, PARTS[0])):
        with pytest.raises(InvalidRequest, match="is cancelled; create a new one"):
            act()
    cleaned(server)
    assert content_of(server, or_none=True) == set(), "the parts of a cancelled upload do not wait for its end"
    server.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
    cleaned(server)
    assert leftovers(server) == []


def test_an_unfinished_upload_expires_after_an_hour_and_leaves_nothing(both: Make) -> None:
    server = both()
    upload_id = begun(server)
    ids = [added(server, upload_id, part) for part in PARTS]
    server.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
    for moment in ("before the clean-up", "after it"):
        for act in (
            lambda: completed(server, upload_id, ids),
            lambda: added(server, upload_id, PARTS[0]),
            lambda: cancelled(server, upload_id),
        ):
            with pytest.raises(InvalidRequest, match="is expired; create a new one"):
                act()
        cleaned(server)
        assert leftovers(server) == [], moment
    (record,) = [key for key in keys(server) if "|upload:" in key[0]]
    server.clock.advance(KEPT_FOR.total_seconds())  # type: ignore[attr-defined]
    assert record[0].endswith(upload_id)


def test_a_part_that_arrives_during_the_cancellation_leaves_nothing(make: Make) -> None:
    server, other = make(), make()
    for number in range(1, 4):
        upload_id = begun(server)
        writes = count(1)
        server.store.before(
            lambda call, writes=writes, at=number: call.verb == "write" and next(writes) == at,
            lambda upload_id=upload_id: cancelled(other, upload_id),
        )
        with pytest.raises(InvalidRequest, match="is cancelled"):
            added(server, upload_id, PARTS[0])
        cleaned(other)
        server.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
        cleaned(other)
        assert leftovers(other) == []


def test_repeated_requests_with_their_key_create_one_upload_and_add_one_part(both: Make) -> None:
    server, other = both(), both()
    new = NewUpload("a", "text/plain", "user_data", len(PARTS[0]))
    first = server.core.uploads.create(LOCAL_CALLER, new, attempt("body", key="key"))
    assert other.core.uploads.create(LOCAL_CALLER, new, attempt("body", key="key")) == first
    with pytest.raises(IdempotencyMismatch):
        server.core.uploads.create(LOCAL_CALLER, new, attempt("other", key="key"))
    ids = {added(each, first.upload_id, PARTS[0], fingerprint="part", key="part") for each in (server, other)}
    assert len(ids) == 1
    with pytest.raises(IdempotencyMismatch):
        added(server, first.upload_id, PARTS[0], fingerprint="other", key="part")
    assert read(server, completed(server, first.upload_id, list(ids)).file) == PARTS[0]
    assert added(server, first.upload_id, PARTS[0], fingerprint="part", key="part") in ids


def test_uploads_of_others_seem_missing(both: Make) -> None:
    server = both(owner_only=True)
    upload_id = begun(server)
    part_id = added(server, upload_id, CONTENT)
    uploads = server.core.uploads
    for stranger in (Caller(tenant="other", principal="a"), TEAMMATE):
        for act in (
            lambda stranger: uploads.add_part(stranger, upload_id, 1, [b"1"], attempt()),
            lambda stranger: uploads.complete(stranger, upload_id, [part_id], None),
            lambda stranger: uploads.cancel(stranger, upload_id),
        ):
            with pytest.raises(NotFound, match=f"upload '{upload_id}' not found"):
                act(stranger)
    for unknown in ("upload_1", "", "\ud800", f"{upload_id}0"):
        with pytest.raises(NotFound):
            uploads.cancel(LOCAL_CALLER, unknown)
    assert read(server, completed(server, upload_id, [part_id]).file) == CONTENT


def test_a_teammate_does_not_change_an_upload(make: Make) -> None:
    server = make()
    upload_id = begun(server)
    for act in (
        lambda: server.core.uploads.add_part(TEAMMATE, upload_id, 1, [b"1"], attempt()),
        lambda: server.core.uploads.complete(TEAMMATE, upload_id, [], None),
        lambda: server.core.uploads.cancel(TEAMMATE, upload_id),
    ):
        with pytest.raises(Forbidden, match="only its owner"):
            act()


Act = Callable[[Server], object]


def whole_upload(server: Server) -> None:
    upload_id = begun(server)
    completed(server, upload_id, [added(server, upload_id, part) for part in PARTS[:2]] + [rest(server, upload_id)])


def rest(server: Server, upload_id: str) -> str:
    return added(server, upload_id, b"".join(PARTS[2:]))


def cancelled_upload(server: Server) -> None:
    upload_id = begun(server)
    added(server, upload_id, PARTS[0])
    cancelled(server, upload_id)


@pytest.mark.parametrize("act", [whole_upload, cancelled_upload])
@pytest.mark.parametrize("moment", ["before", "after", "between payload and record"])
def test_whatever_dies_when_leaves_a_whole_file_or_nothing(make: Make, act: Act, moment: str) -> None:
    for death in count(1):
        dying = make()
        outer = dying.store
        if moment == "between payload and record":
            outer = dying.records._store = CountingStore(dying.records._store)  # type: ignore[attr-defined]
        writes = count(1)

        def is_last(call: StoreCall, writes: Iterator[int] = writes, at: int = death) -> bool:
            return call.verb == "write" and next(writes) == at

        (outer.after if moment == "after" else outer.before)(is_last, outer.die)
        try:
            act(dying)
            is_over = True
        except ProcessDied:
            is_over = False
        last = make()
        files = files_of(last)
        assert [read(last, file) for file in files] in ([], [CONTENT])
        last.clock.advance(UPLOAD_LIVES.total_seconds())  # type: ignore[attr-defined]
        cleaned(last)
        assert files_of(last) == files
        assert {file.content_id for file in files} == content_of(last, or_none=True)
        for file in files:
            assert read(last, file) == CONTENT
            last.core.files.delete(LOCAL_CALLER, file.file_id)
        cleaned(last)
        assert leftovers(last) == []
        if is_over:
            break
    assert death > (9 if act is whole_upload else 4)
