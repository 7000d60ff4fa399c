"""Many readers of sessions, turns and lists during their deletion."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ServerProcess

ROUNDS, ROUNDS_IN_FULL = 4, 12
LONG_TURNS = 8
LONG = "as long as a book " * 20_000  # which is sent in many pieces, and stored in few bytes
TIMEOUT_S = 30.0
PAUSES = "please get_weather(city=Oslo)"
CITY = {"name": "city", "parameter_type": "string", "description": "The city"}
WEATHER = {"name": "get_weather", "description": "Weather of a city", "parameters": [CITY]}


class Session(NamedTuple):
    """A session with long turns that have ended and one that waits for its client."""

    path: str
    turn_id: str

    def reads(self) -> tuple[Callable[[httpx.Client], httpx.Response], ...]:
        agent_id, session_id = self.path.split("/")[3], self.path.split("/")[5]
        ids = {"agent_id": agent_id, "session_id": session_id}
        turn = f"{self.path}/turn/{self.turn_id}"
        return (
            lambda http: http.get(self.path),
            lambda http: http.get(self.path),
            lambda http: http.post("/agents/session/get", json=ids),
            lambda http: http.get(self.path, params={"turn_ids": self.turn_id}),
            lambda http: http.get(turn),
            lambda http: http.get(f"{turn}/events"),
            lambda http: http.get(f"/v1/agents/{agent_id}/sessions"),
            lambda http: http.get("/v1/agents"),
        )


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Delete one session after the other under its readers."""
    rounds = ROUNDS_IN_FULL if full else ROUNDS
    answers: Counter[str] = Counter()
    with ServerProcess(folder) as server, PlainClient(server.url) as client:
        for number in range(rounds):
            answers += read_while_deleted(server, client, is_by_agent=number % 3 == 2)
        log = server.log
    wrong = {answer: count for answer, count in answers.items() if answer not in ("200 whole", "404 whole")}
    read = f"{sum(answers.values())} answers"
    yield Finding(
        f"8 readers of each of {rounds} sessions that are deleted",
        f"{read}, {wrong or 'all well'}",
        "each is whole, and 200 or 404",
        not wrong and answers["200 whole"] > rounds,
    )
    tracebacks = log.count("Traceback")
    yield Finding("what the server logs meanwhile", f"{tracebacks} tracebacks", "none", tracebacks == 0)


def read_while_deleted(server: ServerProcess, client: PlainClient, *, is_by_agent: bool) -> Counter[str]:
    """Return the answers of a session's readers until its deletion."""
    session = new_session(client)
    reads = session.reads()
    ready = threading.Barrier(len(reads) + 1)
    is_gone = threading.Event()
    with ThreadPoolExecutor(len(reads)) as pool:
        readers = [pool.submit(answers_of, server.url, read, ready, is_gone) for read in reads]
        ready.wait(TIMEOUT_S)
        client.delete(session.path.partition("/session/")[0] if is_by_agent else session.path)
        is_gone.set()
        return sum((reader.result() for reader in readers), Counter[str]())


def new_session(client: PlainClient) -> Session:
    path = client.open_session("offline", client_tools=[WEATHER], enable_session_persistence=True)
    for _ in range(LONG_TURNS):
        client.post(f"{path}/turn", turn_body(LONG))
    return Session(path, client.post(f"{path}/turn", turn_body(PAUSES)).json()["turn_id"])


def answers_of(
    url: str, read: Callable[[httpx.Client], httpx.Response], ready: threading.Barrier, is_gone: threading.Event
) -> Counter[str]:
    """Return the count of each answer to the read, until a moment after the session is gone."""
    answers: Counter[str] = Counter()
    with httpx.Client(base_url=url, timeout=TIMEOUT_S) as http:
        answers[answer_of(http, read)] += 1
        ready.wait(TIMEOUT_S)
        while not is_gone.is_set():
            answers[answer_of(http, read)] += 1
        for _ in range(3):
            answers[answer_of(http, read)] += 1
    return answers


def answer_of(http: httpx.Client, read: Callable[[httpx.Client], httpx.Response]) -> str:
    try:
        response = read(http)
        if "event-stream" not in response.headers["content-type"]:
            response.json()
    except (httpx.HTTPError, ValueError) as problem:
        return type(problem).__name__
    return f"{response.status_code} whole"


ATTACK = Attack("reading what is deleted", run)
