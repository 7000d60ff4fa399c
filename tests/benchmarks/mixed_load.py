"""Load on Turnstone alone: `python -m tests.benchmarks.mixed_load [--seconds 60] [--turn-seconds 300]`.

First everything at once, of which nothing may fail; then turns only, during which memory must stay as it is after the
warm-up. The run fails if either does not hold.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from time import perf_counter

from tests.benchmarks.__main__ import ON_DISK
from tests.benchmarks.client_operations import (
    IN_PIECES,
    INSTANT,
    Furnishing,
    Sizes,
    create_agent,
    get_agent,
    get_session,
    get_session_with_some,
    list_agents,
    list_sessions,
    new_session,
    tool_turn,
    turn,
)
from tests.benchmarks.clients import DrivenLoad, Operation, drive, quantile
from tests.benchmarks.figures import Figure, counted, table
from tests.benchmarks.machine import machine_in_words, state_of_machine
from tests.benchmarks.our_history import our_furnishing
from tests.benchmarks.processes import Server, model_server, turnstone

CLIENTS = 8
MODEL = "as-told"
SIZES = Sizes(fresh=0, after_some=16, after_many=0)
# Of eleven operations so many are of each kind; a conversation is of seven requests.
SHARES: tuple[tuple[str, Callable[[Furnishing], Iterator[Operation]], int], ...] = (
    ("get agent", get_agent, 3),
    ("list of agents", list_agents, 1),
    ("list of sessions", list_sessions, 1),
    ("get session with 100 turns", get_session_with_some, 1),
    ("create agent", create_agent, 1),
)
CONVERSATIONS = 4
TURNS_OF_A_SESSION = 10
WARM_UP_SHARE = 0.2
SAMPLES = 8
MAX_GROWTH = 1.1
Times = defaultdict[str, list[float]]


def main() -> None:
    """Load the server, print a table, write the JSON, and exit with 1 if something failed or memory grew."""
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="turnstone-load-", dir=ON_DISK))
    try:
        before = state_of_machine(folder)
        with model_server(MODEL) as model, turnstone(folder, model.port) as server:
            furnishing = our_furnishing(server, folder, MODEL, SIZES)
            figures = [
                *mixed(server, furnishing, arguments.clients, arguments.seconds),
                *memory_in_turns(server, furnishing, arguments.clients, arguments.turn_seconds),
            ]
        after = state_of_machine(folder)
    finally:
        shutil.rmtree(folder)
    print(f"{table(figures)}\n\nmachine before: {machine_in_words(before)}\nmachine after:  {machine_in_words(after)}")
    found = {"machine": {"before": before, "after": after}, "figures": [figure.to_json() for figure in figures]}
    arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(any(figure.has_failed for figure in figures))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("bench-load.json"), help="where the figures are written")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long everything is asked at once")
    parser.add_argument("--turn-seconds", type=float, default=300.0, help="how long turns are asked afterwards")
    return parser.parse_args()


def mixed(server: Server, furnishing: Furnishing, clients: int, seconds: float) -> Iterator[Figure]:
    """Yield the failures, and the times of each kind of request, when all run at once."""
    times: Times = defaultdict(list)
    cpu_before_s = server.cpu_s()
    load = drive(server.port, mixture(furnishing, times), clients, seconds)
    cpu_s = server.cpu_s() - cpu_before_s
    yield failures_in("load", load)
    requests = sum(map(len, times.values()))
    yield Figure(
        f"load: requests with {clients} clients",
        requests / load.took_s,
        "1/s",
        note=f"the clients took {load.own_cpu_s / load.took_s:.0%} of a core, the server {cpu_s / load.took_s:.0%}",
    )
    for name, taken_s in times.items():
        yield _p99(f"load: {name}", taken_s)


def memory_in_turns(server: Server, furnishing: Furnishing, clients: int, seconds: float) -> Iterator[Figure]:
    """Yield the failures of turns, and the memory at the end compared with that after the warm-up."""
    times: Times = defaultdict(list)
    operations = talks(furnishing, times)
    warm_up_s = seconds * WARM_UP_SHARE
    load = drive(server.port, operations, clients, warm_up_s)
    warm_mb = server.memory_mb()
    held_mb = []
    for _ in range(SAMPLES):
        load.add(drive(server.port, operations, clients, (seconds - warm_up_s) / SAMPLES))
        held_mb.append(server.memory_mb())
    yield failures_in("turns", load)
    yield Figure(f"turns: asked with {clients} clients", len(times["turn"]) / load.took_s, "1/s")
    yield _p99("turns: turn", times["turn"])
    yield memory_figure(warm_mb, held_mb)


def memory_figure(warm_mb: float, held_mb: list[float]) -> Figure:
    """Return the memory at the end compared with that after the warm-up."""
    course = ", ".join(f"{mb:.0f}" for mb in (warm_mb, *held_mb))
    grown = held_mb[-1] / warm_mb
    return counted("turns: memory, end to warm-up", grown, "×", MAX_GROWTH, "be at most", note=f"MB: {course}")


def mixture(furnishing: Furnishing, times: Times) -> Iterator[Operation]:
    """Yield operations of all kinds in a fixed shuffled order; their times are added to `times`."""
    sources = [(name, operations(furnishing)) for name, operations, share in SHARES for _ in range(share)]
    chosen = [partial(_next_timed, times, name, source) for name, source in sources]
    chosen += [partial(_conversation, furnishing, times)] * CONVERSATIONS
    Random(7).shuffle(chosen)
    return (make() for make in cycle(chosen))


def talks(furnishing: Furnishing, times: Times) -> Iterator[Operation]:
    """Yield sessions with some turns each."""
    while True:
        yield _talk(furnishing, times)


def _talk(furnishing: Furnishing, times: Times) -> Operation:
    session_id = yield from new_session(furnishing.agent_id)
    for _ in range(TURNS_OF_A_SESSION):
        yield from _timed(times, "turn", turn(furnishing.agent_id, session_id, INSTANT))


def _conversation(furnishing: Furnishing, times: Times) -> Operation:
    agent_id = furnishing.tool_agent_id
    session_id = yield from _timed(times, "create session", new_session(agent_id))
    yield from _timed(times, "turn", turn(agent_id, session_id, INSTANT))
    yield from _timed(times, "turn with 100 deltas", turn(agent_id, session_id, IN_PIECES))
    yield from _timed(times, "turn with a client's tool, resumed", tool_turn(agent_id, session_id))
    yield from _timed(times, "turn", turn(agent_id, session_id, INSTANT))
    yield from _timed(times, "get session with 4 turns", get_session(agent_id, session_id))


def _next_timed(times: Times, name: str, source: Iterator[Operation]) -> Operation:
    return _timed(times, name, next(source))


def _timed(times: Times, name: str, operation: Operation) -> Operation:
    began = perf_counter()
    answer = yield from operation
    times[name].append(perf_counter() - began)
    return answer


def failures_in(phase: str, load: DrivenLoad) -> Figure:
    """Return how many operations failed, and why the first of them did."""
    return counted(f"{phase}: failures", len(load.failures), "", 0, "be exactly", note="; ".join(load.failures[:3]))


def _p99(name: str, times_s: list[float]) -> Figure:
    p50_ms, p99_ms = (quantile(times_s, share) * 1_000 for share in (0.5, 0.99))
    return Figure(
        f"{name}, p99",
        p99_ms,
        "ms",
        spread=(("p50", p50_ms), ("times", len(times_s))),
        note=f"p50 {p50_ms:.1f} ms of {len(times_s):,}",
    )


if __name__ == "__main__":
    main()
