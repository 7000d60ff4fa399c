"""What files leave in a store, and limits small enough for tests."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from tests.support.aws.state_machine import BUCKET, TABLE
from tests.support.engine.harness import Harness, Server
from turnstone.services.cleanup.cleaning import LATE_PAYLOADS
from turnstone.services.files import files
from turnstone.store.files import contents

PIECE, SMALL = 2_000, 300
ENOUGH_S = 10.0


def shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut contents into pieces of some kilobytes, as large files are into pieces of megabytes."""
    monkeypatch.setattr(contents, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(contents, "SMALL_BYTES", SMALL)
    monkeypatch.setattr(files, "SMALL_BYTES", SMALL)


def cleaned(server: Server) -> None:
    """Do the jobs that are due now, and those that check again later."""
    for _ in range(2):
        run_due(server)
        server.clock.advance(LATE_PAYLOADS.total_seconds())  # type: ignore[attr-defined]


def run_due(server: Server) -> None:
    """Do the jobs that are due now."""
    while due := server.core.cleaning.due():
        for job in due:
            server.core.cleaning.run_for(job, timedelta(seconds=ENOUGH_S))
        server.clock.advance(0.001)  # type: ignore[attr-defined]


def keys(server: Server) -> set[tuple[str, str]]:
    """Return the key of every record."""
    if isinstance(server, Harness):
        with closing(sqlite3.connect(server._folder / "turnstone.db")) as connection:
            return set(connection.execute("SELECT pk, sk FROM items"))
    client: Any = server.table._client  # type: ignore[attr-defined]
    return {(item["pk"]["S"], item["sk"]["S"]) for item in client.scan(TableName=TABLE)["Items"]}


def payloads(server: Server) -> set[str]:
    """Return the name of every payload."""
    if isinstance(server, Harness):
        return {path.name for path in server.blobs()}
    blobs: Any = server.records._blobs  # type: ignore[attr-defined]
    return {entry["Key"] for entry in blobs._client.list_objects_v2(Bucket=BUCKET).get("Contents", ())}


def content_of(server: Server, *, or_none: bool = False) -> set[str]:
    """Return the ids of all contents, each of which has a header."""
    found = [(pk.split("|file:")[1], sk) for pk, sk in keys(server) if "|file:" in pk]
    ids = {content_id for content_id, _ in found}
    assert or_none or ids, "there is no content"
    assert {content_id for content_id, sk in found if sk == "#"} == ids
    return ids


def leftovers(server: Server, *, jobs: bool = True) -> list[Any]:
    """Return the records and payloads of files; an upload's record and remembered answers have a time to live."""
    parts = ("|file:", "|files") + (("job:",) if jobs else ())
    return sorted(key for key in keys(server) if any(part in key[0] for part in parts)) + sorted(payloads(server))
