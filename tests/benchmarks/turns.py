"""Turns over HTTP with an instant model: alone, after any history, with a full context, in a thousand pieces."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from tests.benchmarks.figures import Figure, counted, of_times
from tests.benchmarks.histories import Past, question
from tests.benchmarks.http_client import Connection, Exchange, encoded
from tests.benchmarks.processes import Server, model_server, turnstone
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.refs import SessionRef
from turnstone.store.layout.oversize import OversizeStore

LENGTHS = (100, 1_000, 10_000)
SMALL_BUDGET, FULL_BUDGET = 4_000, 32_000
LONG_ENOUGH = 1_000
# Turns are sent whole, so as much as the budget may be short of one.
TOKENS_OF_A_TURN = 640
DELTAS = 1_000
WARM_UP = 40
TIMES = 300
TIMES_AFTER_HISTORY = 150
TIMES_OF_MANY_DELTAS = 40


@dataclass(frozen=True, slots=True)
class Asker:
    """Starts turns of sessions, over one connection."""

    connection: Connection

    def new_agent(self, model: str) -> str:
        config = {"model": model, "instructions": "You are a helpful assistant. Be brief."}
        agent_id: str = self.connection.post("/v1/agents", {"agent_config": config}).json()["agent_id"]
        return agent_id

    def new_session(self, agent_id: str) -> str:
        path = f"/v1/agents/{agent_id}/session"
        session_id: str = self.connection.post(path, {"session_name": "measured"}).json()["session_id"]
        return session_id

    def turn(self, agent_id: str, session_id: str, text: str) -> Exchange:
        """Return a streamed turn, after checking that it is whole."""
        exchange = self.connection.exchange(encoded_turn(agent_id, session_id, text))
        kinds = [event["event_type"] for event in exchange.events()]
        assert kinds[:2] == ["turn_start", "step_start"], kinds
        assert kinds[-2:] == ["step_complete", "turn_complete"], kinds
        return exchange


def encoded_turn(agent_id: str, session_id: str, text: str) -> bytes:
    body = {"stream": True, "messages": [{"role": "user", "content": text}]}
    return encoded("POST", f"/v1/agents/{agent_id}/session/{session_id}/turn", body)


def first_turns(folder: Path) -> Iterator[Figure]:
    """Yield the figures of a turn without history."""
    with _served(folder) as (server, _), server.connect() as connection:
        asker = Asker(connection)
        agent_id = asker.new_agent("instant")
        for _ in range(WARM_UP):
            asker.turn(agent_id, asker.new_session(agent_id), "Are you there?")
        sessions = [asker.new_session(agent_id) for _ in range(TIMES)]
        cpu_before_s = server.cpu_s()
        exchanges = [asker.turn(agent_id, session_id, "Are you there?") for session_id in sessions]
        cpu_s = server.cpu_s() - cpu_before_s
    yield of_times("turn: complete", [turn.whole_s for turn in exchanges], bar_ms=4)
    yield of_times("turn: first event", [turn.first_event_s for turn in exchanges], bar_ms=2)
    yield Figure("turn: the server's processor time", cpu_s / TIMES * 1_000, "ms")


def turns_after_history(folder: Path) -> Iterator[Figure]:
    """Yield the figures of a turn with a small budget after histories of all lengths, one of each in every round."""
    refs = prepared_sessions(folder, (0, *LENGTHS))
    with _served(folder, context_tokens=SMALL_BUDGET) as (server, _), server.connect() as connection:
        asker = Asker(connection)
        exchanges: dict[int, list[Exchange]] = {length: [] for length in refs}
        for number in range(WARM_UP + TIMES_AFTER_HISTORY):
            for length, ref in refs.items():
                session_id = ref.session_id if length else asker.new_session(ref.agent_id)
                exchanges[length].append(asker.turn(ref.agent_id, session_id, question(number)))
    medians = {}
    for length, turns in exchanges.items():
        times_s = [turn.whole_s for turn in turns[WARM_UP:]]
        medians[length] = median(times_s)
        yield of_times(f"history: turn after {length:,}, budget {SMALL_BUDGET:,} tokens", times_s)
    after_some = [medians[length] for length in LENGTHS]
    yield Figure("history: slowest to fastest of those after 100 and more", max(after_some) / min(after_some), "×", 1.3)


def turns_with_full_context(folder: Path) -> Iterator[Figure]:
    """Yield the figures of a turn for which the whole default budget is really sent to the model."""
    ref = prepared_sessions(folder, (LONG_ENOUGH,))[LONG_ENOUGH]
    with _served(folder) as (server, model), server.connect() as connection:
        asker = Asker(connection)
        exchanges = [
            asker.turn(ref.agent_id, ref.session_id, question(n)) for n in range(WARM_UP + TIMES_AFTER_HISTORY)
        ]
        sent_tokens = _tokens_of_last(model)
    short_by = FULL_BUDGET - sent_tokens
    yield counted("context: tokens the model server got", sent_tokens, "tokens", FULL_BUDGET, "be at most")
    yield counted("context: tokens short of the budget", short_by, "tokens", TOKENS_OF_A_TURN, "be at most")
    yield of_times(
        f"context: turn with {FULL_BUDGET:,} tokens sent", [turn.whole_s for turn in exchanges[WARM_UP:]], 10
    )


def many_deltas(folder: Path) -> Iterator[Figure]:
    """Yield the figures of an answer in a thousand pieces, after checking that each came, and in order."""
    with _served(folder) as (server, _), server.connect() as connection:
        asker = Asker(connection)
        agent_id = asker.new_agent(f"words-{DELTAS}")
        exchanges = [
            asker.turn(agent_id, asker.new_session(agent_id), "Count.") for _ in range(WARM_UP + TIMES_OF_MANY_DELTAS)
        ]
    expected = [f"word{number} " for number in range(DELTAS)]
    wrong = sum(_texts(turn) != expected for turn in exchanges)
    yield counted("deltas: answers with one missing or out of order", wrong, "", 0, "be exactly")
    yield of_times(f"deltas: turn with {DELTAS:,}", [turn.whole_s for turn in exchanges[WARM_UP:]], bar_ms=30)


def prepared_sessions(folder: Path, lengths: Sequence[int]) -> dict[int, SessionRef]:
    """Write sessions of these lengths into the data directory; return where each is."""
    sqlite = SqliteRangeStore(folder / "turnstone.db")
    try:
        past = Past(OversizeStore(sqlite, FileBlobStore(folder / "blobs")), Random(5))
        agent_id = past.agent("prose")
        return {length: past.session(agent_id, length) for length in lengths}
    finally:
        sqlite.close()


@contextmanager
def _served(folder: Path, **settings: object) -> Iterator[tuple[Server, Server]]:
    with model_server() as model, turnstone(folder, model.port, **settings) as server:
        yield server, model


def _tokens_of_last(model: Server) -> int:
    with model.connect() as connection:
        body = {"model": "tokens-of-last", "messages": [{"role": "user", "content": "How many?"}]}
        answer = connection.post("/v1/chat/completions", body).json()
    return int(answer["choices"][0]["message"]["content"])


def _texts(turn: Exchange) -> list[str]:
    return [event["delta"]["text"] for event in turn.events() if event["event_type"] == "step_progress"]
