"""Requests of clients to a server of the Llama Stack Agents API, ours or another: every kind."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, repeat
from typing import Any, Protocol

from tests.benchmarks.clients import Failed, Operation
from tests.benchmarks.http_client import Connection, encoded
from tests.benchmarks.prose import prose

TOOL = {"name": "get_weather", "description": "Weather of a city", "parameters": []}
INSTRUCTIONS = "You are a helpful assistant. Be brief."
PAGE = 20
SOME, MANY = 100, 1_000
DELTAS = 100
# The models that give the answers.
INSTANT, IN_PIECES = "instant", f"words-{DELTAS}"
TURNS_OF_LISTED = 200
BANK = "measured"
CHUNK_CHARACTERS, QUESTION_CHARACTERS, QUESTIONS = 720, 60, 200
CHUNKS_AT_ONCE = 100
FOUND = 5


class History(Protocol):
    """Writes sessions with a history straight into a server's store."""

    def sessions(self, agent_id: str, number: int, turns: int) -> list[str]:
        """Store so many sessions of an agent with so many turns each; return their ids."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of agents and sessions.

    Attributes:
        agents: the number of all agents.
        listed: sessions of the agent whose sessions are listed, with 200 turns each.
        fresh: sessions without a turn, for each kind of turn that begins one.
        after_some, after_many: sessions with 100 and with 1,000 turns; both are more than there are clients.
        chunks: of the vector database, of about 120 words each.
    """

    agents: int = 1_000
    listed: int = 25
    fresh: int = 3_600
    after_some: int = 64
    after_many: int = 16
    chunks: int = 5_000


@dataclass(frozen=True)
class Furnishing:
    """A server's agents and sessions, by purpose."""

    model: str
    agent_id: str
    tool_agent_id: str
    listed_agent_id: str
    fresh: deque[str]
    fresh_for_deltas: deque[str]
    fresh_for_tools: deque[str]
    after_some: deque[str]
    after_many: deque[str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request.

    Attributes:
        name: its name in the table.
        operations: its requests, without end or until there is no session left for it.
        bar: required ratio of our rate to the peer's with all clients; None informs only.
        asks_model: each is a turn.
        at_most: most requests of one round, so that the sessions last and their histories keep about their length.
    """

    name: str
    operations: Callable[[Furnishing], Iterator[Operation]]
    bar: float | None = None
    needs_model: bool = False
    at_most: int | None = None


def furnished(connection: Connection, history: History, model: str, sizes: Sizes) -> Furnishing:
    """Make these agents and sessions, the agents over the API."""
    agent_ids = [_made(connection.exchange(_agent_request(model)).json()) for _ in range(sizes.agents - 1)]
    tool_agent_id = _made(connection.exchange(_agent_request(model, TOOL)).json())
    agent_id, listed_agent_id, *_ = agent_ids
    history.sessions(listed_agent_id, sizes.listed, TURNS_OF_LISTED)
    return Furnishing(
        model=model,
        agent_id=agent_id,
        tool_agent_id=tool_agent_id,
        listed_agent_id=listed_agent_id,
        fresh=deque(history.sessions(agent_id, sizes.fresh, 0)),
        fresh_for_deltas=deque(history.sessions(agent_id, sizes.fresh, 0)),
        fresh_for_tools=deque(history.sessions(tool_agent_id, sizes.fresh, 0)),
        after_some=deque(history.sessions(agent_id, sizes.after_some, SOME)),
        after_many=deque(history.sessions(agent_id, sizes.after_many, MANY)),
    )


def filled_bank(connection: Connection, model: str, chunks: int) -> None:
    """Register a vector database and insert the chunks, whose vectors the server requests of that model."""
    bank = {"vector_db_id": BANK, "embedding_model": model, "embedding_dimension": 384}
    assert connection.post("/v1/vector-dbs", bank).status == 200
    for begin in range(0, chunks, CHUNKS_AT_ONCE):
        some = [
            {"content": prose(number, CHUNK_CHARACTERS), "metadata": {"document_id": f"document-{number}"}}
            for number in range(begin, min(begin + CHUNKS_AT_ONCE, chunks))
        ]
        inserted = connection.post("/v1/vector-io/insert", {"vector_db_id": BANK, "chunks": some})
        assert inserted.status == 200, inserted


def kinds(sizes: Sizes, repetitions: int) -> tuple[Kind, ...]:
    """Return all kinds in the order of their measurement: reads come first.

    Args:
        sizes: the numbers of agents and sessions.
        repetitions: the number of rounds of each kind.
    """
    fresh = sizes.fresh // repetitions
    return (
        Kind(f"list of {sizes.agents:,} agents, a page of {PAGE}", list_agents, 100),
        Kind(f"list of {sizes.listed} sessions with {sizes.listed * TURNS_OF_LISTED:,} turns", list_sessions, 100),
        Kind("get agent", get_agent, 10),
        Kind(f"get session with {SOME} turns", get_session_with_some, 8),
        Kind(f"get session with {MANY:,} turns", get_session_with_many, 8),
        Kind(f"query of {sizes.chunks:,} chunks", query_chunks, 5),
        Kind("create session", create_session, 5),
        Kind("turn, no history", turns_without_history, 10, True, fresh),
        Kind(f"turn, {SOME} turns of history", turns_after_some, None, True, 200),
        Kind(f"turn, {MANY:,} turns of history", turns_after_many, 100, True, 200),
        Kind(f"turn, {DELTAS} deltas", turns_with_deltas, None, True, fresh),
        Kind("turn with a client's tool, resumed", tool_turns, None, True, fresh),
        Kind("response, no history", responses, 3, True, fresh),
        Kind("create agent", create_agent, 5),
    )


def responses(furnishing: Furnishing) -> Iterator[Operation]:
    body = {"model": furnishing.model, "input": "Are you there?"}
    return _always(encoded("POST", "/v1/openai/v1/responses", body), b'"completed"')


def create_agent(furnishing: Furnishing) -> Iterator[Operation]:
    return _always(_agent_request(furnishing.model), b'"agent_id"')


def get_agent(furnishing: Furnishing) -> Iterator[Operation]:
    return _always(encoded("GET", f"/v1/agents/{furnishing.agent_id}"), b'"agent_config"')


def list_agents(furnishing: Furnishing) -> Iterator[Operation]:
    return _always(encoded("GET", f"/v1/agents?limit={PAGE}"), b'"has_more"')


def list_sessions(furnishing: Furnishing) -> Iterator[Operation]:
    return _always(encoded("GET", f"/v1/agents/{furnishing.listed_agent_id}/sessions?limit={PAGE}"), b'"has_more"')


def create_session(furnishing: Furnishing) -> Iterator[Operation]:
    while True:
        yield new_session(furnishing.agent_id)


def get_session_with_some(furnishing: Furnishing) -> Iterator[Operation]:
    return (get_session(furnishing.agent_id, session_id) for session_id in cycle(tuple(furnishing.after_some)))


def get_session_with_many(furnishing: Furnishing) -> Iterator[Operation]:
    return (get_session(furnishing.agent_id, session_id) for session_id in cycle(tuple(furnishing.after_many)))


def query_chunks(_: Furnishing) -> Iterator[Operation]:
    bodies = [
        {
            "vector_db_id": BANK,
            "query": prose(-1 - number, QUESTION_CHARACTERS),
            "params": {"max_chunks": FOUND, "mode": "vector"},
        }
        for number in range(QUESTIONS)
    ]
    return (_one(encoded("POST", "/v1/vector-io/query", body), b'"scores"') for body in cycle(bodies))


def turns_without_history(furnishing: Furnishing) -> Iterator[Operation]:
    while furnishing.fresh:
        yield turn(furnishing.agent_id, furnishing.fresh.popleft(), INSTANT)


def turns_after_some(furnishing: Furnishing) -> Iterator[Operation]:
    while True:
        yield _turn_of_any(furnishing.agent_id, furnishing.after_some)


def turns_after_many(furnishing: Furnishing) -> Iterator[Operation]:
    while True:
        yield _turn_of_any(furnishing.agent_id, furnishing.after_many)


def turns_with_deltas(furnishing: Furnishing) -> Iterator[Operation]:
    while furnishing.fresh_for_deltas:
        yield turn(furnishing.agent_id, furnishing.fresh_for_deltas.popleft(), IN_PIECES)


def tool_turns(furnishing: Furnishing) -> Iterator[Operation]:
    while furnishing.fresh_for_tools:
        yield tool_turn(furnishing.tool_agent_id, furnishing.fresh_for_tools.popleft())


def new_session(agent_id: str) -> Operation:
    """Open a session; returns its id."""
    created = yield encoded("POST", f"/v1/agents/{agent_id}/session", {"session_name": "measured"})
    return json.loads(created)["session_id"]


def get_session(agent_id: str, session_id: str) -> Operation:
    """Read a session with all its turns."""
    _expect(b'"turns"', (yield encoded("GET", _path(agent_id, session_id))))


def turn(agent_id: str, session_id: str, text: str) -> Operation:
    """Start a streamed turn and read it to its end."""
    _expect(b'"turn_complete"', (yield _turn_request(agent_id, session_id, text)))


def tool_turn(agent_id: str, session_id: str) -> Operation:
    """Start a turn that calls the client's tool, answer the call, and read the turn to its end."""
    received = yield _turn_request(agent_id, session_id, f"tool:{TOOL['name']}")
    _expect(b'"turn_awaiting_input"', received)
    *_, last = (line for line in received.split(b"\n\n") if line)
    waiting = json.loads(last.removeprefix(b"data: "))["event"]["payload"]["turn"]
    answers = [
        {"call_id": call["call_id"], "tool_name": call["tool_name"], "content": "4 degrees and rain"}
        for call in waiting["output_message"]["tool_calls"]
    ]
    path = f"{_path(agent_id, session_id)}/turn/{waiting['turn_id']}/resume"
    _expect(b'"turn_complete"', (yield encoded("POST", path, {"stream": True, "tool_responses": answers})))


def _turn_of_any(agent_id: str, sessions: deque[str]) -> Operation:
    # No other client has a turn in the session at that time.
    session_id = sessions.popleft()
    try:
        yield from turn(agent_id, session_id, INSTANT)
    finally:
        sessions.append(session_id)


def _always(request: bytes, sign: bytes) -> Iterator[Operation]:
    return (_one(request, sign) for _ in repeat(None))


def _one(request: bytes, sign: bytes) -> Operation:
    _expect(sign, (yield request))


def _expect(sign: bytes, body: bytes) -> None:
    if sign not in body:
        raise Failed(f"no {sign!r} in {body[-300:]!r}")


def _agent_request(model: str, *tools: dict[str, Any]) -> bytes:
    # Else the other server keeps sessions in its memory only.
    config = {"model": model, "instructions": INSTRUCTIONS, "enable_session_persistence": True, "client_tools": tools}
    return encoded("POST", "/v1/agents", {"agent_config": config})


def _turn_request(agent_id: str, session_id: str, text: str) -> bytes:
    body = {"stream": True, "messages": [{"role": "user", "content": text}]}
    return encoded("POST", f"{_path(agent_id, session_id)}/turn", body)


def _path(agent_id: str, session_id: str) -> str:
    return f"/v1/agents/{agent_id}/session/{session_id}"


def _made(created: dict[str, str]) -> str:
    return created["agent_id"]
