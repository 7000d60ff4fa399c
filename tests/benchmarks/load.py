"""Many at once: requests while turns wait for a slow model, and how many requests a second are served."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.benchmarks.figures import Figure, of_times
from tests.benchmarks.http_client import Connection, Exchange, encoded
from tests.benchmarks.processes import Server, model_server, turnstone
from tests.benchmarks.turns import Asker, encoded_turn

WAITING = 45
WAIT_TIMEOUT_S = 10.0
GETS = 400
CONNECTIONS = 8
REQUESTS_OF_EACH = 400
WARM_UP = 50


def gets_while_turns_wait(folder: Path) -> Iterator[Figure]:
    """Yield how long a read takes while turns wait for a silent model."""
    with model_server() as model, turnstone(folder, model.port) as server, ExitStack() as open_connections:
        asker = Asker(open_connections.enter_context(server.connect()))
        agent_id = asker.new_agent("slow-600")
        for _ in range(WAITING):
            connection = open_connections.enter_context(server.connect())
            connection.send(encoded_turn(agent_id, asker.new_session(agent_id), "Are you there?"))
        _wait_for_questions(model)
        reading = encoded("GET", f"/v1/agents/{agent_id}")
        reads = [asker.connection.exchange(reading) for _ in range(WARM_UP + GETS)]
        assert all(exchange.status == 200 for exchange in reads)
    yield of_times(
        f"waiting: GET of an agent while {WAITING} turns wait", [exchange.whole_s for exchange in reads[WARM_UP:]], 5
    )


def throughput(folder: Path) -> Iterator[Figure]:
    """Yield how many agents are created and read a second over several connections."""
    with turnstone(folder) as server:
        config = {"model": "offline", "instructions": "You are a helpful assistant. Be brief."}
        creating = encoded("POST", "/v1/agents", {"agent_config": config})
        with server.connect() as connection:
            reading = encoded("GET", f"/v1/agents/{connection.exchange(creating).json()['agent_id']}")
        yield Figure(f"throughput: creates with {CONNECTIONS} connections", _rate(server, creating), "1/s")
        yield Figure(f"throughput: gets with {CONNECTIONS} connections", _rate(server, reading), "1/s")


def _rate(server: Server, request: bytes) -> float:
    """Return how many such requests a second are answered."""
    with ExitStack() as stack, ThreadPoolExecutor(CONNECTIONS) as pool:
        connections = [stack.enter_context(server.connect()) for _ in range(CONNECTIONS)]
        list(pool.map(partial(_exchanges, request=request, times=WARM_UP), connections))
        began = time.perf_counter()
        answers = list(pool.map(partial(_exchanges, request=request, times=REQUESTS_OF_EACH), connections))
        took_s = time.perf_counter() - began
    assert all(exchange.status == 200 for reads in answers for exchange in reads)
    return CONNECTIONS * REQUESTS_OF_EACH / took_s


def _exchanges(connection: Connection, request: bytes, times: int) -> list[Exchange]:
    return [connection.exchange(request) for _ in range(times)]


def _wait_for_questions(model: Server) -> None:
    """Wait until the model server has a request of every turn."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    with model.connect() as connection:
        while connection.get("/__calls").json()["calls"] < WAITING:
            assert time.monotonic() < deadline, "not every turn has asked the model"
            time.sleep(0.01)
