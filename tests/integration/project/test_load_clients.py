"""The load clients of benchmarks answer, check and time each request, and report failures.

Covers: tests/benchmarks/clients
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.benchmarks.client_operations import Sizes
from tests.benchmarks.clients import DrivenLoad, Failed, Operation, drive
from tests.benchmarks.http_client import encoded
from tests.benchmarks.mixed_load import MODEL, failures_in, memory_figure, memory_in_turns, mixture, talks
from tests.benchmarks.our_history import our_furnishing
from tests.benchmarks.processes import model_server, turnstone
from tests.fakes.models.openai_answers import HangUp, text_answer
from tests.fakes.models.openai_server import ModelServer

LONG_S = 60.0
FEW = Sizes(agents=30, listed=2, fresh=0, after_some=8, after_many=0)
OF_EACH_KIND = 11
MODELS = encoded("GET", "/v1/models")
QUESTION = {"model": "instant", "stream": True, "messages": [{"role": "user", "content": "Are you there?"}]}
CHAT = encoded("POST", "/v1/chat/completions", QUESTION)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def expecting(request: bytes, sign: bytes) -> Operation:
    if sign not in (yield request):
        raise Failed("something else")


def test_every_operation_is_done_once_over_as_many_connections_as_there_are_clients(server: ModelServer) -> None:
    measured = drive(server.port, (expecting(MODELS, b"instant") for _ in range(20)), 3, LONG_S)
    assert (len(measured.times_s), measured.failures, server.connections) == (20, [], 3)
    assert 0 < min(measured.times_s) <= max(measured.times_s) <= measured.took_s
    assert 0 < measured.own_cpu_s


def test_a_stream_is_read_to_its_end(server: ModelServer) -> None:
    measured = drive(server.port, (expecting(CHAT, b"data: [DONE]\n\n") for _ in range(5)), 2, LONG_S)
    assert (len(measured.times_s), measured.failures) == (5, [])


def test_an_operation_is_sent_the_answer_to_each_of_its_requests(server: ModelServer) -> None:
    seen: list[bytes] = []

    def both() -> Operation:
        seen.append((yield MODELS))
        seen.append((yield CHAT))

    measured = drive(server.port, iter([both()]), 1, LONG_S)
    assert len(measured.times_s) == 1
    assert [b'"list"' in seen[0], b"[DONE]" in seen[1]] == [True, True]


def test_a_refusal_and_an_unexpected_answer_are_reported_and_not_timed(server: ModelServer) -> None:
    operations = [
        expecting(encoded("GET", "/v1/nothing"), b""),
        expecting(MODELS, b"something"),
        expecting(MODELS, b"instant"),
    ]
    measured = drive(server.port, iter(operations), 1, LONG_S)
    assert [failure[:14] for failure in measured.failures] == ["404: b'{\"error", "something else"]
    assert (len(measured.times_s), server.connections) == (1, 1)


def test_a_client_that_is_hung_up_on_connects_again() -> None:
    with ModelServer([HangUp(), text_answer("ok")]) as server:
        measured = drive(server.port, (expecting(CHAT, b"[DONE]") for _ in range(2)), 1, LONG_S)
        assert server.connections == 2
    assert (measured.failures, len(measured.times_s)) == (["ConnectionResetError('the server hung up')"], 1)


def test_nothing_begins_once_the_time_is_over_and_what_has_begun_is_ended(server: ModelServer) -> None:
    measured = drive(server.port, (expecting(MODELS, b"instant") for _ in range(20)), 3, 0.0)
    assert (len(measured.times_s), measured.failures) == (3, [])


def test_measurements_add_up() -> None:
    measured = DrivenLoad([1.0], 2.0, 0.5, ["a"])
    measured.add(DrivenLoad([3.0], 4.0, 0.25, ["b"]))
    assert measured == DrivenLoad([1.0, 3.0], 6.0, 0.75, ["a", "b"])


def test_everything_at_once_fails_nowhere(tmp_path: Path) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    with model_server(MODEL) as model, turnstone(tmp_path, model.port) as server:
        history = our_furnishing(server, tmp_path, MODEL, FEW)
        measured = drive(server.port, islice(mixture(history, times), 2 * OF_EACH_KIND), 4, LONG_S)
        measured.add(drive(server.port, islice(talks(history, times), 2), 2, LONG_S))
        figures = {figure.name: figure for figure in memory_in_turns(server, history, 2, 0.5)}
    assert (measured.failures, len(measured.times_s)) == ([], 2 * OF_EACH_KIND + 2)
    assert {name: len(taken_s) for name, taken_s in times.items()} == {
        "get agent": 6,
        "list of agents": 2,
        "list of sessions": 2,
        "get session with 100 turns": 2,
        "create agent": 2,
        "create session": 8,
        "turn": 16 + 2 * 10,
        "turn with 100 deltas": 8,
        "turn with a client's tool, resumed": 8,
        "get session with 4 turns": 8,
    }
    assert figures["turns: failures"].measured == 0
    assert figures["turns: memory, end to warm-up"].measured == pytest.approx(1, abs=0.5)


def test_a_request_that_fails_or_memory_that_grows_fails_the_run() -> None:
    assert [failures_in("load", DrivenLoad(failures=["404"] * many)).has_failed for many in (0, 1)] == [False, True]
    assert [memory_figure(100, [150, end]).has_failed for end in (110, 111)] == [False, True]
