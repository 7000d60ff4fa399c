"""Kill the real server in the midst of streams, a hundred times: `python -m tests.e2e.torture [--rounds 100]`.

Clients retry as the official ones do: a request without an answer, or answered 409 or 503, is sent again with a higher
`x-stainless-retry-count`; an aborted stream is not. Half of the clients send an `Idempotency-Key` as well and repeat an
aborted stream under it. Afterwards everything that was acknowledged must be stored, and stored once.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.models.openai_answers import Answer, Pause, call_answer, ending, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.integration.crash_matrix.databases import SqliteDatabase
from tests.integration.crash_matrix.leftovers import leftovers
from tests.support.clients.plain_client import Json, PlainClient, answering, events_in, named, turn_body
from tests.support.server.servers import ServerProcess, wait_until
from turnstone.store.layout.oversize import OversizeStore

CLIENTS = 4
TURNS_PER_ROUND = 2
ATTEMPTS = 60
BACKOFF_S = 0.1
WORDS = 12
WORD_S = 0.02
LONGEST_LIFE_S = 0.5  # shorter than an undisturbed visit takes
LEAST_AMID = 0.5
TOOL = {"name": "get_weather", "description": "Tell the weather.", "parameters": []}
MODELS = ("words", "clock", "weather")
KINDS = {
    "words": ["inference"],
    "clock": ["inference", "tool_execution", "inference"],
    "weather": ["inference", "tool_execution", "inference"],
}
MAY_COME_AGAIN = (409, 503)


def answer_of(body: Mapping[str, Any]) -> Answer:
    """Answer word by word; the models `clock` and `weather` call a tool first."""
    is_first = body["messages"][-1]["role"] == "user"
    if is_first and body["model"] == "clock":
        return call_answer(("current_time", "{}"))
    if is_first and body["model"] == "weather":
        return call_answer(("get_weather", "{}"))
    words = [item for number in range(WORDS) for item in (text_chunk(f"word{number} "), Pause(WORD_S))]
    return (*words, *ending("stop"))


@dataclass
class Acknowledged:
    """The results that one client received."""

    agents: list[str] = field(default_factory=list)
    sessions: dict[str, list[str]] = field(default_factory=dict)
    turns: set[str] = field(default_factory=set)
    steps: dict[str, Json] = field(default_factory=dict)
    ended: dict[str, Json] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


class Client:
    """Opens sessions and takes turns in them; keeps the results."""

    def __init__(self, number: int, url: str, seed: int) -> None:
        self.number = number
        self.acknowledged = Acknowledged()
        self.model = MODELS[number % len(MODELS)]
        self._has_keys = number % 2 == 0
        self._http = httpx.Client(base_url=url, timeout=60)
        self._random = random.Random(f"{seed} {number}")
        self._keys = 0

    def close(self) -> None:
        self._http.close()

    def begin(self) -> None:
        config = {"model": self.model, "instructions": "Be brief.", "name": f"agent of {self.number}"}
        tools = {"toolgroups": ["builtin::clock"], "client_tools": [TOOL]}
        answer = self._posted("/v1/agents", {"agent_config": {**config, **tools}}, self._key())
        self.acknowledged.agents.append(answer["agent_id"])

    def visit(self, round_number: int) -> None:
        """Open a session and take some turns in it, across restarts of the server."""
        path = f"/v1/agents/{self.acknowledged.agents[0]}/session"
        answer = self._posted(path, {"session_name": f"round {round_number}"}, self._key())
        session = f"{path}/{answer['session_id']}"
        texts = self.acknowledged.sessions.setdefault(session, [])
        for number in range(TURNS_PER_ROUND):
            texts.append(f"{self.number}.{round_number}.{number}")
            last = self._last_event(f"{session}/turn", turn_body(texts[-1]))
            while last is not None and last.get("event_type") == "turn_awaiting_input":
                turn = last["turn"]
                last = self._last_event(f"{session}/turn/{turn['turn_id']}/resume", answering(turn, "rain"))

    def _posted(self, path: str, body: Json, key: str | None) -> Json:
        headers = {"idempotency_key": key} if key else {}
        for attempt in range(ATTEMPTS):
            try:
                response = self._http.post(path, json=body, headers=self._headers(headers, attempt))
            except httpx.TransportError:
                self._back_off(attempt)
                continue
            if response.status_code == 200:
                answer: Json = response.json()
                return answer
            self._expect_refusal(response)
            self._back_off(attempt)
        raise AssertionError(f"{path} was never answered")

    def _last_event(self, path: str, body: Json) -> Json | None:
        """Return the last event of the turn; None if its stream was aborted and the request may not be repeated."""
        headers = {"idempotency_key": self._key()} if self._has_keys else {}
        for attempt in range(ATTEMPTS):
            try:
                with self._http.stream(
                    "POST", path, json={**body, "stream": True}, headers=self._headers(headers, attempt)
                ) as response:
                    if response.status_code == 200:
                        last = self._read(response)
                        if last is not None or not self._has_keys:
                            return last
                    else:
                        response.read()
                        if self._expect_refusal(response):
                            return None
            except httpx.TransportError:
                self.acknowledged.counts["requests without an answer"] += 1
            self._back_off(attempt)
        raise AssertionError(f"{path} was never answered")

    def _read(self, response: httpx.Response) -> Json | None:
        """Record the events of the stream; return the last event of the turn, None if the stream ended before it."""
        try:
            for event in events_in(response.iter_lines()):
                self._record(event)
                if event.get("event_type") in ("turn_complete", "turn_awaiting_input"):
                    return event
        except httpx.TransportError:
            self.acknowledged.counts["aborted streams"] += 1
        return None

    def _record(self, event: Json) -> None:
        match event.get("event_type"):
            case "turn_start":
                self.acknowledged.turns.add(event["turn_id"])
            case "step_complete":
                self.acknowledged.steps[event["step_id"]] = event["step_details"]
            case "turn_complete":
                self.acknowledged.ended[event["turn"]["turn_id"]] = event["turn"]
            case None:
                self.acknowledged.counts["streams ended by an error"] += 1

    def _expect_refusal(self, response: httpx.Response) -> bool:
        """Return whether the refusal is final. Raises AssertionError for a status that no client should receive."""
        is_final = response.headers.get("x-should-retry") == "false"
        assert response.status_code in MAY_COME_AGAIN, (response.status_code, response.text)
        self.acknowledged.counts[f"refused with {response.status_code}"] += 1
        return is_final

    def _key(self) -> str | None:
        self._keys += 1
        return f"torture-{self.number}-{self._keys}" if self._has_keys else None

    def _headers(self, headers: Mapping[str, str | None], attempt: int) -> dict[str, str]:
        given = {name: value for name, value in headers.items() if value}
        return named({**given, "x_stainless_retry_count": str(attempt)})

    def _back_off(self, attempt: int) -> None:
        self.acknowledged.counts["tried again"] += 1
        time.sleep(BACKOFF_S * (1 + min(attempt, 4)) * self._random.uniform(0.5, 1))


def torture(folder: Path, rounds: int, seed: int, report: Callable[[str], object] = print) -> Counter[str]:
    """Kill the server `rounds` times; return the counts. Raises AssertionError if anything is lost or duplicated."""
    moments = random.Random(seed)
    with ModelServer(answer_of) as model, ServerProcess(folder, model_url=model.url, lease_seconds=1) as server:
        clients = [Client(number, server.url, seed) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            for client in clients:
                client.begin()
            amid = 0
            for round_number in range(rounds):
                visits = [pool.submit(client.visit, round_number) for client in clients]
                time.sleep(moments.uniform(0, LONGEST_LIFE_S))
                amid += not all(visit.done() for visit in visits)
                server.restart()
                for visit in visits:
                    visit.result()
        counts = _counted(clients, rounds)
        counts["kills amid requests"] = amid
        assert amid > rounds * LEAST_AMID, f"{amid} of {rounds} kills met a server at work"
        with PlainClient(server.url) as reader:
            for client in clients:
                counts += _assert_kept(reader, client)
                client.close()
    _assert_no_leftovers(server.data_dir)
    report(", ".join(f"{count} {name}" for name, count in counts.items()))
    report("everything acknowledged is stored, nothing twice, and nothing is left over")
    return counts


def _counted(clients: Sequence[Client], rounds: int) -> Counter[str]:
    counts: Counter[str] = Counter({"kills": rounds})
    for client in clients:
        counts["turns acknowledged"] += len(client.acknowledged.turns)
        counts["steps acknowledged"] += len(client.acknowledged.steps)
        counts["endings acknowledged"] += len(client.acknowledged.ended)
        counts += client.acknowledged.counts
    return counts


def _assert_kept(reader: PlainClient, client: Client) -> Counter[str]:
    """Assert that everything acknowledged to the client is stored exactly once. Return the counts of stored turns."""
    counts: Counter[str] = Counter()
    listed = [agent["agent_id"] for agent in reader.get("/v1/agents")["data"]]
    assert [agent_id for agent_id in client.acknowledged.agents if listed.count(agent_id) != 1] == []
    path = f"/v1/agents/{client.acknowledged.agents[0]}/sessions"
    names = Counter(session["session_name"] for session in reader.get(f"{path}?limit=1000")["data"])
    if client._has_keys:
        assert [name for name, count in names.items() if count > 1] == []
    turns: dict[str, Json] = {}
    for session, texts in client.acknowledged.sessions.items():
        found = _at_rest(reader, session)
        here = [turn["input_messages"][0]["content"] for turn in found]
        assert here == [text for text in texts if text in here], (here, texts)
        turns |= {turn["turn_id"]: turn for turn in found}
    assert client.acknowledged.turns <= turns.keys()
    steps = {step["step_id"]: step for turn in turns.values() for step in turn["steps"]}
    assert len(steps) == sum(len(turn["steps"]) for turn in turns.values())
    assert {step_id: steps.get(step_id) for step_id in client.acknowledged.steps} == client.acknowledged.steps
    assert {turn_id: turns[turn_id] for turn_id in client.acknowledged.ended} == client.acknowledged.ended
    for turn in turns.values():
        kinds = [step["step_type"] for step in turn["steps"]]
        assert kinds == KINDS[client.model][: len(kinds)], turn
        counts["turns stored"] += 1
        counts["turns stored whole"] += kinds == KINDS[client.model]
    return counts


def _at_rest(reader: PlainClient, session: str) -> list[Json]:
    """Return the session's turns once none of them runs any more."""
    seen: list[list[Json]] = []

    def is_at_rest() -> bool:
        seen.append(reader.get(session)["turns"])
        return all(turn["completed_at"] or turn["output_message"]["tool_calls"] for turn in seen[-1])

    wait_until(is_at_rest, 30, f"a turn of {session} does not come to rest")
    return seen[-1]


def _assert_no_leftovers(data_dir: Path) -> None:
    database = SqliteDatabase(data_dir)
    store, blobs = database.connect()
    with closing(store):  # type: ignore[type-var]
        left = leftovers(database.records(), database.blobs(), OversizeStore(store, blobs))
        assert (left.orphans, left.blobs) == ([], set())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="how often the server is killed, two seconds each")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the moments of the kills and of the clients' pauses"
    )
    given = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # the model server logs each word that it can't send
    with tempfile.TemporaryDirectory() as folder:
        torture(Path(folder), given.rounds, given.seed)


if __name__ == "__main__":
    main()
