"""Two servers measured beside each other: they alternate, receive the same requests, and a missed bar is marked.

Covers: tests/benchmarks/side_by_side
"""

import json
import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.client_operations import Furnishing, Kind
from tests.benchmarks.clients import DrivenLoad, Operation
from tests.benchmarks.http_client import encoded
from tests.benchmarks.model_server import last_user_text
from tests.benchmarks.peer_server import PeerHistory, models_of
from tests.benchmarks.processes import Server, model_server
from tests.benchmarks.side_by_side import (
    Comparison,
    Observation,
    Pace,
    Party,
    compared,
    messages_of_last,
    table_of_rates,
)
from tests.fakes.models.openai_server import ModelServer

NO_HISTORY = Furnishing("", "", "", "", deque(), deque(), deque(), deque(), deque())
MODELS = encoded("GET", "/v1/models")
SESSION = {"session_id": "s1", "session_name": "past", "turns": []}
ANSWER = {"role": "assistant", "content": "ok", "tool_calls": []}
TURN = {
    "turn_id": "t1",
    "session_id": "s1",
    "input_messages": [{"role": "user", "content": "instant"}],
    "steps": [{"turn_id": "t1", "step_id": "p1", "step_type": "inference", "model_response": ANSWER}],
    "output_message": ANSWER,
    "started_at": "2026-01-01T00:00:00Z",
}


@pytest.fixture
def parties() -> Iterator[list[Party]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(ModelServer()) for _ in range(2)]
        yield [
            Party(name, Server(server.port, os.getpid(), 0), replace(NO_HISTORY, model=name))
            for name, server in zip(("ours", "peer"), servers, strict=True)
        ]


def comparison(ours: int, peer: int, bar: float | None) -> Comparison:
    """Return a comparison with so many requests answered in one second."""
    measured = [Observation(DrivenLoad([0.001] * number, took_s=1.0)) for number in (ours, peer)]
    return Comparison("get agent", 8, bar, *measured)


def kind_noted_in(order: list[str]) -> Kind:
    def operations(history: Furnishing) -> Iterator[Operation]:
        while True:
            order.append(history.model)
            yield _one()

    def _one() -> Operation:
        yield MODELS

    return Kind("models", operations, at_most=3)


def test_parties_take_turns(parties: list[Party]) -> None:
    order: list[str] = []
    rates = compared(kind_noted_in(order), 1, parties, parties[0].server, Pace(rounds=2, seconds=60))
    assert order == [*["ours"] * 3, *["peer"] * 3] * 2
    assert [(name, one.requests) for name, one in rates.items()] == [("ours", 6), ("peer", 6)]


def test_a_party_whose_time_is_used_up_receives_no_more_requests(parties: list[Party]) -> None:
    order: list[str] = []
    compared(kind_noted_in(order), 1, parties, parties[0].server, Pace(rounds=2, seconds=1e-9))
    assert order == ["ours", "peer"]


@pytest.mark.parametrize(
    ("ours", "peer", "bar", "verdict"),
    [(50, 5, 10, "ok"), (49, 5, 10, "MISSED"), (49, 5, None, ""), (50, 0, 10, "MISSED")],
)
def test_a_ratio_below_its_bar_is_marked(ours: int, peer: int, bar: float | None, verdict: str) -> None:
    one = comparison(ours, peer, bar)
    assert one.verdict == verdict
    assert table_of_rates([one]).splitlines()[-1].endswith(verdict or "|")


def test_quantiles_are_times_that_were_seen() -> None:
    measured = Observation(DrivenLoad([number / 1_000 for number in range(100, 0, -1)]))
    assert [measured.quantile_ms(share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert Observation().quantile_ms(0.99) == 0


def test_processor_time_is_reported_per_thousand_requests() -> None:
    measured = Observation(DrivenLoad([0.1] * 50, took_s=10.0, own_cpu_s=2.0), cpu_s=5.0)
    assert (measured.rate, measured.cpu_s_of_a_thousand, measured.client_share) == (5.0, 100.0, 0.2)


def test_chat_models_come_before_embedding_models(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        "models: [{model_id: e, model_type: embedding}, {model_id: a, model_type: llm}, {model_id: b, model_type: llm}]"
    )
    assert models_of(config) == ("a", "b", "e")


def test_a_history_of_the_peers_has_ids_of_its_own_and_texts_as_long_as_ours(tmp_path: Path) -> None:
    database = tmp_path / "agents_store.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE kvstore (key TEXT PRIMARY KEY, value TEXT, expiration TIMESTAMP)")
    session_ids = PeerHistory(database, SESSION, TURN, 32, 40).sessions("a1", 2, 3)
    with closing(sqlite3.connect(database)) as connection:
        rows = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM kvstore")}
    assert len(set(session_ids)) == 2
    assert len(rows) == 2 * (1 + 3)
    steps = []
    for session_id in session_ids:
        key = f"session:a1:{session_id}"
        assert rows[key] == {**SESSION, "session_id": session_id}
        for turn in [value for at, value in rows.items() if at.startswith(f"{key}:")]:
            assert rows[f"{key}:{turn['turn_id']}"] == turn
            (step,) = turn["steps"]
            steps.append(step["step_id"])
            assert (turn["session_id"], step["turn_id"]) == (session_id, turn["turn_id"])
            assert step["model_response"] == turn["output_message"]
            assert [len(turn["input_messages"][0]["content"]), len(turn["output_message"]["content"])] == [32, 40]
    assert len(set(steps)) == 6


def test_the_model_answers_by_the_last_user_message() -> None:
    parts = [{"type": "text", "text": "words-"}, {"type": "text", "text": "2"}]
    messages = [{"role": "user", "content": "instant"}, {"role": "user", "content": parts}]
    assert last_user_text([*messages, {"role": "assistant", "content": "ok"}]) == "words-2"
    with model_server("as-told") as model, model.connect() as connection:
        body = {"model": "as-told", "stream": True, "messages": messages}
        answer = connection.post("/v1/chat/completions", body).body
        listed = connection.get("/v1/models").json()["data"]
        assert messages_of_last(model) == 2
    assert [f'"word{number} "'.encode() in answer for number in range(3)] == [True, True, False]
    assert listed[0]["id"] == "as-told"
