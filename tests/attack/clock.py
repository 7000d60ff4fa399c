"""A wall clock that goes back by an hour under a server: caches and leases must end in their own time all the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.stepped_clock import SteppedServer
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.services.access.api_keys import ApiKeys
from turnstone.store.access.api_keys import ApiKeyStore

HOUR = timedelta(hours=1)
CACHE_S = 0.5
LEASE_S = 0.5
SLACK_S = 3.0
PATIENCE_S = 10.0
POLL_S = 0.05


def run(folder: Path, is_full: bool) -> Iterator[Finding]:
    for off in (-HOUR, HOUR) if is_full else (-HOUR,):
        yield from _set_clock(folder / f"{off.total_seconds():.0f}", off)


def _set_clock(folder: Path, off: timedelta) -> Iterator[Finding]:
    """Set the clock when a key was revoked, when a process died in the midst of a turn, and under a live turn."""
    (folder / "data").mkdir(parents=True)
    with closing(SqliteRangeStore(folder / "data" / "turnstone.db")) as store:
        keys = ApiKeys(ApiKeyStore(store), SystemClock(), RandomIds(), os.urandom)
        revoked, token = keys.create(LOCAL_CALLER, "revoked")
        staying = f"Bearer {keys.create(LOCAL_CALLER, 'staying')[1]}"
        settings = {"auth": "api_keys", "auth_cache_seconds": CACHE_S, "lease_seconds": LEASE_S, "await_seconds": 60}
        with (
            ModelServer() as model,
            SteppedServer(folder, model_url=model.url, authorization=staying, **settings) as server,
        ):
            with PlainClient(server.url, authorization=f"Bearer {token}") as client:
                client.get("/v1/agents")  # the server has cached the key from here
                server.set_clock(off)
                keys.revoke(LOCAL_CALLER.tenant, revoked.key_id)
                refused_s = _seconds_until(lambda: client.status_of("/v1/agents") == 401)
                yield _in_time("a revoked key is refused", off, refused_s, CACHE_S)
            with PlainClient(server.url, authorization=staying) as client:
                session = client.open_session("stream-0.5")
                with client.streaming(f"{session}/turn", turn_body("a story")) as events:
                    next(events)
                    server.kill()
                server.set_clock(2 * off)
                server.start()
                yield from _dead_turn(client, session, off)
                yield _live_turn(server, client, off)


def _dead_turn(client: PlainClient, session: str, off: timedelta) -> Iterator[Finding]:
    """Check that a turn whose process died continues, and then the next one of its session."""
    freed_s = _seconds_until(lambda: client.get(session)["turns"][0]["completed_at"] is not None)
    yield _in_time("a dead process's turn goes on and ends", off, freed_s, LEASE_S + 0.5)
    status = client.post(f"{session}/turn", {**turn_body("and?"), "stream": False}).status_code
    turns = [turn["turn_id"] for turn in client.get(session)["turns"]]
    is_sorted = status == 200 and turns == sorted(turns) and len(turns) == 2
    yield Finding(f"turns after {_in_words(off)}", f"{status}, {len(turns)} turns", "in order", is_sorted)


def _live_turn(server: SteppedServer, client: PlainClient, off: timedelta) -> Finding:
    """Set the clock again while a turn runs, which has to end normally."""
    session = client.open_session("stream-1")
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        received = [next(events)]
        server.set_clock(3 * off)
        refused = client.post(f"{session}/turn", {**turn_body("meanwhile"), "stream": False}).status_code
        received += events
    last = received[-1].get("event_type", "an error")
    agents = {agent["agent_id"] for agent in client.get("/v1/agents")["data"]}
    is_met = (refused, last, len(agents)) == (409, "turn_complete", 2)
    return Finding(
        f"a live turn, {_in_words(off)}", f"{refused}, {last}, {len(agents)} agents", "409, complete, 2", is_met
    )


def _in_time(what: str, off: timedelta, measured_s: float, due_s: float) -> Finding:
    is_met = measured_s <= due_s + SLACK_S
    return Finding(
        f"{what}, {_in_words(off)}", f"{measured_s:.1f} s", f"{due_s:g} s, {SLACK_S:g} s more at most", is_met
    )


def _in_words(off: timedelta) -> str:
    return f"the clock {'back' if off < timedelta() else 'forward'} by an hour"


def _seconds_until(is_so: Callable[[], bool]) -> float:
    """Return how long it took, many times the bar at most."""
    began = time.monotonic()
    while not is_so() and time.monotonic() < began + PATIENCE_S:
        time.sleep(POLL_S)
    return time.monotonic() - began


ATTACK = Attack("clock", run)
