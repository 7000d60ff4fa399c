"""Every acknowledged write of a killed process is in the database, whole; any other is there whole or not at all.

Covers: adapters/sqlite/sqlite, adapters/sqlite/sqlite_writes
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.ports.records import Key, Put, Range, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.oversize import OversizeStore

ROUNDS = 20
LONGEST_LIFE_S = 0.1
HEADER = Key("session", "header")

# One turn is one write of three operations in two partitions; the body of every fifth one goes to the blob store.
WRITER = """
import random, sys
from pathlib import Path
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.ports.records import Absent, Key, Put, RevIs
from turnstone.store.layout.oversize import OversizeStore

folder = Path(sys.argv[1])
store = OversizeStore(SqliteRangeStore(folder / "turnstone.db"), FileBlobStore(folder / "blobs"))
header = store.get(Key("session", "header"))
turn, rev = int(header.body), header.rev
while True:
    turn += 1
    body = random.Random(turn).randbytes(360_000 if turn % 5 == 0 else 3_000)
    store.write([
        Put(Key("session", f"turn:{turn:06}"), body, {}, (Absent(),)),
        Put(Key("session", "header"), str(turn).encode(), {}, (RevIs(rev),)),
        Put(Key("list", f"{turn:06}"), str(rev).encode(), {"open": "0"}, (Absent(),)),
    ])
    rev += 1
    print(turn, flush=True)
"""


def test_a_killed_writer_leaves_every_acknowledged_write_whole(tmp_path: Path) -> None:
    database, lives = tmp_path / "turnstone.db", random.Random(7)
    acknowledged, per_round = 0, []
    with closing(SqliteRangeStore(database)) as sqlite:
        sqlite.write([Put(HEADER, b"0")])
    for _ in range(ROUNDS):
        before = acknowledged
        acknowledged = max(before, _write_until_killed(tmp_path, lives.uniform(0, LONGEST_LIFE_S)))
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        with closing(SqliteRangeStore(database)) as sqlite:
            store = OversizeStore(sqlite, FileBlobStore(tmp_path / "blobs"))
            written = _whole_turns(store)
            assert acknowledged <= written <= acknowledged + 1
            header = store.get(HEADER)
            assert header is not None
            store.write([Put(HEADER, header.body, {}, (RevIs(header.rev),))])
        acknowledged = written
        per_round.append(written - before)
    assert min(per_round) >= 1


def _write_until_killed(folder: Path, life_s: float) -> int:
    """Return the last turn that a writer acknowledged which was killed some time after its first."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(life_s)
        writer.kill()
        lines = [first, *writer.stdout]
    return int([line for line in lines if line.endswith("\n")][-1])


def _whole_turns(store: RangeStore) -> int:
    """Return how many turns are there, after checking that each is whole and none is missing."""
    header = store.get(HEADER)
    assert header is not None
    count = int(header.body)
    turns = _all(store, Range("session", start="turn:", end="turn:~"))
    listed = _all(store, Range("list"))
    numbers = [f"{number:06}" for number in range(1, count + 1)]
    assert numbers == [record.key.sk.removeprefix("turn:") for record in turns] == [record.key.sk for record in listed]
    for number, turn in enumerate(turns, start=1):
        assert turn.body == random.Random(number).randbytes(360_000 if number % 5 == 0 else 3_000)
    assert len(store.open_keys("0", count + 1).keys) == count
    return count


def _all(store: RangeStore, query: Range) -> list[Record]:
    page = store.range(query)
    records = [*page.records]
    while page.after is not None:
        page = store.range(query._replace(after=page.after))
        records += page.records
    return records
