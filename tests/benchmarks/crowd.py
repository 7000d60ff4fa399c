"""More users than slots: each has a session and a client, and sends the next turn at once after an answer.

`python -m tests.benchmarks.crowd [--users 100] [--seconds 15] [--model slow-2]` prints their waits.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from tests.benchmarks.figures import Figure, counted, of_times, table
from tests.benchmarks.http_client import HOST
from tests.benchmarks.processes import model_server, turnstone

USERS = 100
SECONDS = 15.0
MODEL = "slow-2"
CLIENT_TIMEOUT_S = 60.0


@dataclass
class Met:
    """The waits and failures of users.

    Attributes:
        statuses: how often each status was the answer to a turn.
        times_s: how long each turn took that was answered by 200.
        health_s: how long each check of the server's health took in that time.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    times_s: list[float] = field(default_factory=list)
    health_s: list[float] = field(default_factory=list)

    @property
    def refusals(self) -> int:
        return self.statuses.total() - self.statuses[200]


def crowd(folder: Path) -> Iterator[Figure]:
    """Yield how a server of default settings serves more users than it has slots."""
    with model_server() as model, turnstone(folder, model.port) as server:
        cpu_before_s = server.cpu_s()
        met = asyncio.run(meet(server.port, USERS, SECONDS, MODEL))
        cpu_s = server.cpu_s() - cpu_before_s
    what = f"crowd: {USERS} users of a model of 2 s"
    yield counted(f"{what}, refusals in {SECONDS:g} s", met.refusals, "", 0, "be exactly")
    yield Figure(f"{what}, turns", met.statuses[200], "", note=f"the server took {cpu_s:.1f} s of processor time")
    yield of_times(f"{what}, a turn", met.times_s)
    yield of_times(f"{what}, health meanwhile", met.health_s)


async def meet(port: int, users: int, seconds: float, model: str) -> Met:
    """Return the waits of so many users that send turns in a loop until the time is over."""
    met = Met()
    clients = [httpx.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=CLIENT_TIMEOUT_S) for _ in range(users)]
    try:
        agent = {"agent_config": {"model": model, "instructions": "Be brief."}}
        path = f"/v1/agents/{(await clients[0].post('/v1/agents', json=agent)).json()['agent_id']}/session"
        sessions = [(await client.post(path, json={"session_name": "user"})).json()["session_id"] for client in clients]
        until = time.monotonic() + seconds
        turn_loops = (
            _send_turns(client, f"{path}/{session}/turn", until, met)
            for client, session in zip(clients, sessions, strict=True)
        )
        await asyncio.gather(_poll_health(port, until, met), *turn_loops)
    finally:
        await asyncio.gather(*(client.aclose() for client in clients))
    return met


async def _send_turns(client: httpx.AsyncClient, path: str, until: float, met: Met) -> None:
    while time.monotonic() < until:
        began = time.monotonic()
        answer = await client.post(path, json={"messages": [{"role": "user", "content": "hello"}]})
        met.statuses[answer.status_code] += 1
        if answer.status_code == 200:
            met.times_s.append(time.monotonic() - began)


async def _poll_health(port: int, until: float, met: Met) -> None:
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=CLIENT_TIMEOUT_S) as client:
        while time.monotonic() < until:
            began = time.monotonic()
            assert (await client.get("/v1/health")).status_code == 200
            met.health_s.append(time.monotonic() - began)
            await asyncio.sleep(0.1)


def main() -> None:
    """Print the waits and failures of users."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--model", default=MODEL)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder, model_server() as model, turnstone(Path(folder), model.port) as server:
        met = asyncio.run(meet(server.port, arguments.users, arguments.seconds, arguments.model))
    print(dict(met.statuses))
    print(table([of_times("a turn", met.times_s), of_times("health meanwhile", met.health_s)]))


if __name__ == "__main__":
    main()
