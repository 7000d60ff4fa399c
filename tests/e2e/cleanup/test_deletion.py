"""A server that is killed during clean-up continues it after its next start.

Covers: services/cleanup/cleaning, services/cleanup/sweeping
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from tests.support.clients.plain_client import PlainClient
from tests.support.server.servers import ServerProcess, wait_until
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.refs import SessionRef
from turnstone.ports.records import MAX_OPERATIONS, Put
from turnstone.store.layout.keys import session_partition, turn_key

TURNS = 10_000
PATIENCE_S = 30.0
MESSAGE = {"messages": [{"role": "user", "content": "hello"}]}


def test_ten_thousand_turns_are_removed_by_two_processes_the_first_of_which_is_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, PlainClient(server.url) as client:
        path = client.open_session("offline", enable_session_persistence=True)
        assert client.post(f"{path}/turn", MESSAGE).status_code == 200
        _, _, _, agent_id, _, session_id = path.split("/")
        ref = SessionRef(tenant="local", agent_id=agent_id, session_id=session_id)
        database = next(tmp_path.rglob("turnstone.db"))
        fill(database, ref)
        answer = httpx.delete(server.url + path)
        assert (answer.status_code, answer.content, "content-length" in answer.headers) == (204, b"", False)
        wait_until(lambda: left(database, ref) < TURNS, PATIENCE_S, "nothing was removed")
        server.kill()
        assert left(database, ref) > 0
        server.start()
        assert httpx.get(server.url + path).status_code == 404
        assert httpx.delete(server.url + path).status_code == 404
        wait_until(lambda: left(database, ref) == 0, PATIENCE_S, "not all was removed")


def fill(database: Path, ref: SessionRef) -> None:
    store = SqliteRangeStore(database)
    puts = [Put(turn_key(ref, f"{number:06}"), bytes(4_000), {"status": "completed"}) for number in range(TURNS)]
    for first in range(0, TURNS, MAX_OPERATIONS):
        store.write(puts[first : first + MAX_OPERATIONS])
    store.close()


def left(database: Path, ref: SessionRef) -> int:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT count(*) FROM items WHERE pk = ?", (session_partition(ref),))
        count: int = rows.fetchone()[0]
        return count
