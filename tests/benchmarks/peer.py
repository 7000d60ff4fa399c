"""Measure Turnstone beside Llama Stack 0.2.12: `python -m tests.benchmarks.peer --peer-python ... --peer-config ...`.

Both servers store on the same disk and call the same instant model server; each kind of request is
sent to one and the other in turns. Bars are for how many times as many requests a second ours answers at 8 clients.

Ours serves in as many processes as there are cores, unless --processes is given. The peer is one process, as it
offers no more: its settings name no number of them, and uvicorn gets its app as an object, which one process serves.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.__main__ import ON_DISK
from tests.benchmarks.client_operations import Sizes, filled_bank, furnished, kinds
from tests.benchmarks.machine import machine_in_words, state_of_machine
from tests.benchmarks.our_history import ANSWER, QUESTION, our_furnishing
from tests.benchmarks.peer_server import history_of, models_of, peer
from tests.benchmarks.processes import Server, model_server, turnstone
from tests.benchmarks.side_by_side import Comparison, Pace, Party, compared, table_of_rates, table_of_times

OURS, PEER = "ours", "peer"
ONE, ALL = 1, 8


def main() -> None:
    """Measure both, print tables, write the JSON, and exit with 1 if a request to ours failed."""
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="turnstone-peer-", dir=ON_DISK))
    sizes = Sizes(**{name: value for name in Sizes.__slots__ if (value := getattr(arguments, name)) is not None})
    pace = Pace(arguments.rounds, arguments.seconds)
    try:
        before = state_of_machine(folder)
        with _parties(arguments, folder, sizes) as (parties, model):
            processes = {party.name: _serving(party.server) for party in parties}
            idle = _memory(parties)
            comparisons = list(_comparisons(parties, model, pace, sizes, arguments.only))
            memory = {name: {"idle_mb": idle[name], **held} for name, held in _memory_now(parties).items()}
        after = state_of_machine(folder)
    finally:
        shutil.rmtree(folder)
    servers = {OURS: f"{processes[OURS]} serving", PEER: f"{processes[PEER]}, all that it offers"}
    print("\nprocesses: " + "; ".join(f"{name} {number}" for name, number in servers.items()))
    print(f"\n{table_of_rates(comparisons)}\n\n{table_of_times(comparisons)}\n")
    for name, held in memory.items():
        print(f"memory of {name}: " + ", ".join(f"{when} {mb:,.0f} MB" for when, mb in held.items()))
    print(f"\nmachine before: {machine_in_words(before)}\nmachine after:  {machine_in_words(after)}")
    found: dict[str, Any] = {
        "machine": {"before": before, "after": after},
        "processes": processes,
        "memory": memory,
        "comparisons": [one.to_json() for one in comparisons],
    }
    arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(any(one.ours.load.failures for one in comparisons))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", type=Path, required=True, help="the Python that has the peer installed")
    parser.add_argument("--peer-config", type=Path, required=True, help="the peer's run configuration")
    parser.add_argument("--json", type=Path, default=Path("bench-peer.json"), help="where the figures are written")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each kind is asked of each server")
    parser.add_argument("--rounds", type=int, default=3, help="in how many turns")
    parser.add_argument("--only", action="append", help="kinds whose name begins so; may be repeated")
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--processes", type=int, default=cores, help="how many of ours serve, as many as cores if unset"
    )
    for name in Sizes.__slots__:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help="see Sizes")
    return parser.parse_args()


def _comparisons(
    parties: Sequence[Party], model: Server, pace: Pace, sizes: Sizes, only: Sequence[str] | None
) -> Iterator[Comparison]:
    for kind in kinds(sizes, repetitions=2 * pace.rounds):
        if only and not kind.name.startswith(tuple(only)):
            continue
        for clients in (ONE, ALL):
            print(f"measuring: {kind.name}, {clients} client(s)", file=sys.stderr, flush=True)
            both = compared(kind, clients, parties, model, pace)
            yield Comparison(kind.name, clients, kind.bar if clients == ALL else None, both[OURS], both[PEER])


@contextmanager
def _parties(arguments: argparse.Namespace, folder: Path, sizes: Sizes) -> Iterator[tuple[tuple[Party, Party], Server]]:
    models = models_of(arguments.peer_config)
    with (
        model_server(*models) as model,
        turnstone(folder / OURS, model.port, processes=arguments.processes) as ours,
        peer(arguments.peer_python, arguments.peer_config, folder / PEER, model.port) as theirs,
    ):
        print("writing histories", file=sys.stderr, flush=True)
        with theirs.connect() as connection:
            history = history_of(connection, folder / PEER, models[0], (QUESTION, ANSWER))
            theirs_furnished = furnished(connection, history, models[0], sizes)
        ours_furnished = our_furnishing(ours, folder / OURS, models[0], sizes)
        for server in (ours, theirs):
            with server.connect() as connection:
                filled_bank(connection, models[-1], sizes.chunks)
        yield (Party(OURS, ours, ours_furnished), Party(PEER, theirs, theirs_furnished)), model


def _serving(server: Server) -> int:
    """Return how many of its processes serve: those that the first one has started, if there are any."""
    return max(1, len(server.pids()) - 1)


def _memory(parties: Sequence[Party]) -> dict[str, float]:
    return {party.name: party.server.memory_mb() for party in parties}


def _memory_now(parties: Sequence[Party]) -> dict[str, dict[str, float]]:
    return {
        party.name: {"end_mb": party.server.memory_mb(), "peak_mb": party.server.peak_memory_mb()} for party in parties
    }


if __name__ == "__main__":
    main()
