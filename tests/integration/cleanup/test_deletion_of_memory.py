"""After everything of memory is deleted, nothing of it is in the database: of no kind of bank, file or upload.

Covers: services/cleanup/cleaning, services/memory/banks, services/files/files, services/files/uploads
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.engine.harness import Harness
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.files.stored_files import NewUpload
from turnstone.domain.memory.banks import BankKind, NewBank
from turnstone.domain.memory.documents import NewDocument, TextDocument
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.documents import graphs

A_DAY_S = 86_400
FIRST = Attempt(fingerprint="body")
LONG = "The tide is low, and the knots feed. " * 30_000  # in payloads, and in several runs
EDGES = json.dumps([{"subject": "Tern", "relation": "eats", "object": f"fish {number}"} for number in range(20)])
TEXTS: dict[BankKind, tuple[str, ...]] = {
    "vector": ("A tern.", LONG),
    "keyword": ("A tern.", LONG),
    "keyvalue": ("A tern.", LONG),
    "graph": (EDGES,),
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    monkeypatch.setattr(graphs, "WRITTEN_AT_ONCE", 6)
    with closing(Harness(tmp_path)) as server:
        yield server


def work(server: Harness) -> None:
    """Do all jobs, each when it is due, for some hours."""
    for _ in range(60):
        server.clock.advance(180)  # type: ignore[attr-defined] # in tests it is a fake
        for job in server.core.cleaning.due():
            server.core.cleaning.run_for(job, timedelta(hours=1))


def a_day_later(server: Harness) -> list[tuple[str, str]]:
    """Drop records that are kept for a day, as DynamoDB does, and return the keys of all others."""
    server.clock.advance(A_DAY_S)  # type: ignore[attr-defined] # in tests it is a fake
    server._sqlite.drop_expired(server.clock.now())
    return [row[:2] for row in server.dump()]


def filled(server: Harness, kind: BankKind) -> None:
    server.core.banks.register(
        LOCAL_CALLER, NewBank(kind, kind, "scripted" if kind == "vector" else None), NO_PROVIDER_DATA, FIRST
    )
    given = [TextDocument(NewDocument(f"d{at}", {"page": at}), text) for at, text in enumerate(TEXTS[kind])]
    for _ in range(2):
        server.core.documents.insert(LOCAL_CALLER, kind, given, NO_PROVIDER_DATA, FIRST)
        given = [each._replace(text=each.text.replace("tern", "knot").replace("Tern", "Knot")) for each in given]


def test_nothing_is_left_of_banks_files_and_uploads_once_they_are_deleted(server: Harness) -> None:
    core = server.core
    files = [
        core.files.create(LOCAL_CALLER, f"{at}.txt", "text/plain", "assistants", [text.encode()])
        for at, text in enumerate(("A heron.", LONG, " "))
    ]
    new = NewBank("", "vector", "scripted")
    ids = [file.file_id for file in files]
    store = core.vector_stores.create(LOCAL_CALLER, new, ids, NO_PROVIDER_DATA, FIRST).bank.bank_id
    core.file_batches.create(LOCAL_CALLER, store, [NewDocument(ids[0], file_id=ids[0])], FIRST)
    work(server)
    for kind in TEXTS:
        filled(server, kind)
    upload = core.uploads.create(LOCAL_CALLER, NewUpload("a.txt", "text/plain", "assistants", 8), FIRST)
    core.uploads.add_part(LOCAL_CALLER, upload.upload_id, 8, [b"12345678"], FIRST)
    assert len(server.blobs()) > 6
    for kind in TEXTS:
        core.documents.drop(LOCAL_CALLER, kind, "d0")
    assert [sk for _, sk in a_day_later(server) if sk.startswith("removed:")] == []
    for bank in core.banks.list(LOCAL_CALLER):
        core.banks.delete(LOCAL_CALLER, bank.bank_id)
    for file_id in ids:
        core.files.delete(LOCAL_CALLER, file_id)
    work(server)
    assert server.blobs() == []
    assert a_day_later(server) == []
