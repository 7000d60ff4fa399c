"""Payload files that are missing or damaged under a server's data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import Json, PlainClient, turn_body
from tests.support.server.servers import ServerProcess

LOST, DAMAGED, WHOLE = 1, 2, 3
TURNS = 4
LONG = "a long story " * 200_000  # of which the store reads fewer at once than there are turns
CITY = {"name": "city", "parameter_type": "string", "description": "The city"}
WEATHER = {"name": "get_weather", "description": "Weather of a city", "parameters": [CITY]}


class Stored(NamedTuple):
    """A session of turns with payload files of their own, of which some are lost."""

    path: str
    turns: list[Json]

    @property
    def agent(self) -> str:
        return self.path.split("/")[3]

    def turn(self, number: int) -> str:
        return f"{self.path}/turn/{self.turns[number]['turn_id']}"


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Lose the payloads of turns, of a paused one and of an agent, then the whole folder for a while."""
    with ServerProcess(folder) as server, PlainClient(server.url) as client, httpx.Client(base_url=server.url) as http:
        stored = session_with_losses(server, client)
        yield from findings_of_a_session(http, stored)
        yield from findings_of_a_turn(http, stored)
        yield from findings_of_a_next_turn(http, stored)
        yield from findings_of_a_paused_turn(server, client, http)
        yield from findings_of_an_agent(server, client, http)
        yield from findings_of_a_missing_folder(server, http, stored)
        yield from findings_of_a_failure_at_once(server, client, http)
        yield from findings_of_a_failure_midway(server, client, http)
        yield from findings_of_the_log(server, stored)


def findings_of_a_session(http: httpx.Client, stored: Stored) -> Iterator[Finding]:
    ids = {"agent_id": stored.agent, "session_id": stored.path.split("/")[5]}
    for name, answer in (
        ("a session", http.get(stored.path)),
        ("a session, as clients of September 2024 ask for it", http.post("/agents/session/get", json=ids)),
    ):
        session = answer.json() if answer.status_code == 200 else {"turns": []}
        served = [turn for number, turn in enumerate(session["turns"]) if turn == stored.turns[number]]
        lost = session.get("lost_turns", [])
        yield Finding(
            f"{name} of {TURNS} turns, the payloads of two lost",
            f"{answer.status_code}, {len(served)} whole, {len(lost)} named",
            "200, 2 whole, 2 named",
            len(session["turns"]) == TURNS
            and len(served) == TURNS - 2
            and lost == [stored.turns[number]["turn_id"] for number in (LOST, DAMAGED)]
            and all("is lost" in turn["output_message"]["content"] for turn in session["turns"] if turn not in served),
        )


def findings_of_a_turn(http: httpx.Client, stored: Stored) -> Iterator[Finding]:
    for what, path in (
        ("a lost turn", stored.turn(LOST)),
        ("a damaged turn", stored.turn(DAMAGED)),
        ("the events of a lost turn", f"{stored.turn(LOST)}/events"),
        ("a step of a lost turn", f"{stored.turn(LOST)}/step/unknown"),
    ):
        answer = http.get(path)
        yield refused_for_good(what, answer, stored.turns[LOST if "lost" in what else DAMAGED]["turn_id"])


def refused_for_good(what: str, answer: httpx.Response, identifier: str) -> Finding:
    is_final = answer.headers.get("x-should-retry") == "false" and "retry-after" not in answer.headers
    is_named = f"{identifier}' is lost" in answer.text
    return Finding(
        what,
        f"{answer.status_code}, {'final' if is_final else 'to be repeated'}, {'named' if is_named else 'not named'}",
        "410, final, named",
        answer.status_code == 410 and is_final and is_named,
    )


def findings_of_a_next_turn(http: httpx.Client, stored: Stored) -> Iterator[Finding]:
    answer = http.post(f"{stored.path}/turn", json=turn_body("go on"))
    yield Finding("the next turn of that session", str(answer.status_code), "200", answer.status_code == 200)


def findings_of_a_paused_turn(server: ServerProcess, client: PlainClient, http: httpx.Client) -> Iterator[Finding]:
    """Lose a turn that waits for its client: it can't continue, and its session can."""
    path = client.open_session("offline", client_tools=[WEATHER], enable_session_persistence=True)
    with removed_afterwards(server):
        paused = client.post(f"{path}/turn", turn_body("please get_weather(city=Oslo)" + noise())).json()
    turn = f"{path}/turn/{paused['turn_id']}"
    calls = paused["output_message"]["tool_calls"]
    responses = [{"call_id": call["call_id"], "tool_name": call["tool_name"], "content": "4 degrees"} for call in calls]
    resumed = http.post(f"{turn}/resume", json={"tool_responses": responses})
    yield refused_for_good("resuming a lost turn", resumed, paused["turn_id"])
    following = http.post(f"{path}/turn", json=turn_body("never mind"))
    session = http.get(path).json()
    ended = [turn["completed_at"] is not None for turn in session.get("turns", [])]
    yield Finding(
        "the next turn of a session whose paused turn is lost",
        f"{following.status_code}, {ended.count(True)} turns have ended",
        "200, 2 turns have ended",
        following.status_code == 200 and ended == [True, True],
    )


def findings_of_an_agent(server: ServerProcess, client: PlainClient, http: httpx.Client) -> Iterator[Finding]:
    with removed_afterwards(server):
        config = {"model": "offline", "instructions": noise()}
        agent_id = client.post("/v1/agents", {"agent_config": config}).json()["agent_id"]
    agent = f"/v1/agents/{agent_id}"
    yield refused_for_good("an agent whose configuration is lost", http.get(agent), agent_id)
    listed = http.get("/v1/agents")
    found = [entry["agent_id"] for entry in listed.json().get("data", [])]
    deleted = http.delete(agent)
    yield Finding(
        "the list of agents with it, and its deletion",
        f"{listed.status_code}, {'listed' if agent_id in found else 'not listed'}, {deleted.status_code}",
        "200, listed, 204",
        (listed.status_code, agent_id in found, deleted.status_code) == (200, True, 204),
    )


def findings_of_a_missing_folder(server: ServerProcess, http: httpx.Client, stored: Stored) -> Iterator[Finding]:
    """Take the whole folder away, as a disk that is not mounted: then no payload counts as lost."""
    blobs = server.data_dir / "blobs"
    blobs.rename(server.data_dir / "elsewhere")
    refused = http.get(stored.path)
    (server.data_dir / "elsewhere").rename(blobs)
    again = http.get(stored.path)
    yield Finding(
        "a session while the folder of all payloads is missing, and afterwards",
        f"{refused.status_code} with retry-after {refused.headers.get('retry-after')}, {again.status_code}",
        "503 with retry-after 1, 200",
        (refused.status_code, refused.headers.get("retry-after"), again.status_code) == (503, "1", 200),
    )


def findings_of_a_failure_at_once(server: ServerProcess, client: PlainClient, http: httpx.Client) -> Iterator[Finding]:
    """Make the read of an agent's payload fail, which a list reads only when it is drained."""
    before = payloads(server)
    client.post("/v1/agents", {"agent_config": {"model": "offline", "instructions": noise()}})
    with unreadable(payloads(server) - before):
        refused = outcome_of(http, "/v1/agents")
    again = outcome_of(http, "/v1/agents")
    yield Finding(
        "a list of agents of which one can't be read now, and afterwards",
        f"{refused}, {again}",
        "503 whole, 200 whole",
        (refused, again) == ("503 whole", "200 whole"),
    )


def findings_of_a_failure_midway(server: ServerProcess, client: PlainClient, http: httpx.Client) -> Iterator[Finding]:
    """Make the read of a session's last payload fail, long after the first bytes of the answer were sent."""
    path = client.open_session("offline", enable_session_persistence=True)
    before = payloads(server)
    for _ in range(TURNS):
        client.post(f"{path}/turn", turn_body(noise() + LONG))
    last = max(payloads(server) - before, key=lambda payload: payload.stat().st_mtime_ns)
    logged = len(server.log)
    with unreadable({last}):
        answer = outcome_of(http, path)
    lines = [line for line in server.log[logged:].splitlines() if "ERROR" in line or "WARNING" in line]
    again = outcome_of(http, path)
    yield Finding(
        "a payload that fails to be read after the answer's first megabytes",
        f"{answer}, {len(lines)} log lines; afterwards {again}",
        "broken off, 1 log line; afterwards 200 whole",
        (answer, len(lines), again) == ("broken off", 1, "200 whole"),
    )


@contextmanager
def unreadable(files: set[Path]) -> Iterator[None]:
    """Replace each file by a folder, which even a process with every right can't read."""
    for file in files:
        file.rename(file.with_suffix(".elsewhere"))
        file.mkdir()
    yield
    for file in files:
        file.rmdir()
        file.with_suffix(".elsewhere").rename(file)


def outcome_of(http: httpx.Client, path: str) -> str:
    try:
        answer = http.get(path)
        answer.json()
    except httpx.RemoteProtocolError:
        return "broken off"
    return f"{answer.status_code} whole"


def findings_of_the_log(server: ServerProcess, stored: Stored) -> Iterator[Finding]:
    logged = [line for line in server.log.splitlines() if " ERROR " in line and "is lost: the payload" in line]
    about = [sum(stored.turns[number]["turn_id"] in line for line in logged) for number in (LOST, DAMAGED, WHOLE)]
    yield Finding("log lines about the lost, the damaged, a whole turn", str(about), "[1, 1, 0]", about == [1, 1, 0])
    tracebacks = server.log.count("Traceback")
    yield Finding("what the server logs meanwhile", f"{tracebacks} tracebacks", "none", tracebacks == 0)


def session_with_losses(server: ServerProcess, client: PlainClient) -> Stored:
    """Return a session in which one turn's payload is removed and another's is damaged."""
    path = client.open_session("offline", enable_session_persistence=True)
    turns = []
    for number in range(TURNS):
        before = payloads(server)
        turns.append(client.post(f"{path}/turn", turn_body(f"turn {number} {noise()}")).json())
        made = payloads(server) - before
        for payload in made:
            if number == LOST:
                payload.unlink()
            elif number == DAMAGED:
                payload.write_bytes(payload.read_bytes()[:-1] + b"?")
    return Stored(path, turns)


@contextmanager
def removed_afterwards(server: ServerProcess) -> Iterator[None]:
    """Remove the payloads that the block makes."""
    before = payloads(server)
    yield
    made = payloads(server) - before
    assert made, "no payload was stored"
    for payload in made:
        payload.unlink()


def payloads(server: ServerProcess) -> set[Path]:
    return set(server.data_dir.glob("blobs/*/*.blob"))


def noise() -> str:
    """Return text that no record has room for, even compressed."""
    return os.urandom(400_000).hex()


ATTACK = Attack("lost payloads", run)
