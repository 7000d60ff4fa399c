"""Messages of Letta's API beside the floor, which calls no tool: ours is a call of `send_message`."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.clients import Failed, Operation
from tests.benchmarks.figures import Figure
from tests.benchmarks.floor import BATCHES, CLIENTS, MODEL, Bars, Party, compared, figures, floor_server
from tests.benchmarks.http_client import encoded
from tests.benchmarks.model_server import SENDS
from tests.benchmarks.processes import model_server, turnstone

AGENTS = "/letta/v1/agents/"
BARS = Bars(2.5)


@dataclass(frozen=True, slots=True)
class Messenger(Party):
    """A server that is sent messages, each client's to an agent of its own."""

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
    """Yield how many times the floor's processor time and median time our messages take."""
    with model_server(MODEL) as model, floor_server(folder, model.port) as floor, _ours(folder, model.port) as ours:
        for clients in CLIENTS:
            yield from figures(compared(floor, ours, 1, clients, BATCHES[1]), "Letta message", clients, BARS)


@contextmanager
def _ours(folder: Path, model_port: int) -> Iterator[Messenger]:
    with turnstone(folder / "ours", model_port) as server:
        yield Messenger(server, "", is_floor=False)
