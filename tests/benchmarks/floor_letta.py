"""Messages of Letta's API beside the floor, which calls no tool: ours is a call of `send_message`.

Each message is the first to its agent; further figures are of agents with a history, which the floor does not have.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.clients import Failed, Operation, drive
from tests.benchmarks.figures import Figure
from tests.benchmarks.floor import BATCHES, CLIENTS, FOREVER_S, MODEL, Bars, Party, compared, figures, floor_server
from tests.benchmarks.http_client import encoded
from tests.benchmarks.model_server import SENDS
from tests.benchmarks.processes import model_server, turnstone

AGENTS = "/letta/v1/agents/"
BARS = Bars(2.5)
# Source: Letta 0.6.12 as measured for this bar, the time of a message in ms by the length of the history before it; a
# request to the floor took 2 to 4 ms on the same machine.
LETTA_MS = {0: 144, 50: 523, 200: 1_072}
FLOOR_MS = 3
FASTER_BAR = 10.0
HISTORIES = 5
AROUND = 8  # messages before and after a length, the median of which is its time


@dataclass(frozen=True, slots=True)
class Messenger(Party):
    """A server that is sent messages, each to a new agent."""

    def times_ms(self, messages: int) -> list[float]:
        """Return the time of each of so many messages to one agent, in their order."""
        agents = deque([self._new_session(0)])
        load = drive(self.server.port, (self._turn(agents, 1) for _ in range(messages)), 1, FOREVER_S)
        assert not load.failures, load.failures[:3]
        return [taken_s * 1_000 for taken_s in load.times_s]

    def _new_sessions(self, clients: int, turns: int) -> deque[str]:
        return deque(self._new_session(number) for number in range(turns))

    def _new_session(self, number: int) -> str:
        with self.server.connect() as connection:
            made = connection.post(AGENTS, {"llm_config": {"model": MODEL}, "name": f"agent {number}"})
        assert made.status == 200, made
        agent_id: str = made.json()["id"]
        return agent_id

    def _turn(self, sessions: deque[str], deltas: int) -> Operation:
        agent_id = sessions.popleft()
        assert deltas == 1, "messages are measured with one delta"
        body = {"messages": [{"role": "user", "text": SENDS}]}
        answer = yield encoded("POST", f"{AGENTS}{agent_id}/messages/stream", body)
        sessions.append(agent_id)
        if b"assistant_message" not in answer:
            raise Failed(f"the agent did not answer: {answer[-300:]!r}")


def messages_beside_the_floor(folder: Path) -> Iterator[Figure]:
    """Yield how many times the floor's processor time and median time our messages take, and Letta's as measured."""
    with model_server(MODEL) as model, floor_server(folder, model.port) as floor, _ours(folder, model.port) as ours:
        for clients in CLIENTS:
            yield from figures(compared(floor, ours, 1, clients, BATCHES[1]), "Letta message", clients, BARS)
        pairs = [
            (floor.batch(1, 1, BATCHES[1]).p50_ms, ours.times_ms(max(LETTA_MS) + AROUND)) for _ in range(HISTORIES + 1)
        ][1:]
    for length, letta_ms in LETTA_MS.items():
        ours_ms = [
            (floor_ms, median(times_ms[max(0, length - AROUND) : length + AROUND])) for floor_ms, times_ms in pairs
        ]
        ratio = median(letta_ms / FLOOR_MS * floor_ms / our_ms for floor_ms, our_ms in ours_ms)
        spread = (("ours ms", median(our_ms for _, our_ms in ours_ms)), ("Letta ms", letta_ms))
        yield Figure(
            f"Letta: a message after {length}, times as fast", ratio, "×", FASTER_BAR, "be at least", spread=spread
        )


@contextmanager
def _ours(folder: Path, model_port: int) -> Iterator[Messenger]:
    with turnstone(folder / "ours", model_port) as server:
        yield Messenger(server, "", is_floor=False)
