"""The server that Turnstone is measured beside: Llama Stack 0.2.12 in an environment of its own, and its histories.

Its SQLite file has one table of keys and values: a session under `session:{agent}:{session}`, its turns under that key
with their own id behind it, all as JSON. A history is a turn that it wrote itself, copied under new ids.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from tests.benchmarks.histories import answer, question
from tests.benchmarks.http_client import HOST, Connection
from tests.benchmarks.processes import Program, Server, free_port, started

START_TIMEOUT_S = 120.0
DATABASE = "agents_store.db"


def models_of(config: Path) -> tuple[str, ...]:
    """Return the models it will request from the model server: those that talk first, the one for embeddings last."""
    models = yaml.safe_load(config.read_text())["models"]
    talking_first = sorted(models, key=lambda model: model["model_type"] != "llm")
    return tuple(model["model_id"] for model in talking_first)


@contextmanager
def peer(python: Path, config: Path, folder: Path, model_port: int) -> Iterator[Server]:
    """Serve the data in the folder with the peer, which that Python has installed."""
    folder.mkdir(parents=True)
    port = free_port()
    command = [
        str(python.absolute()),
        "-m",
        "llama_stack.distribution.server.server",
        "--config",
        str(config.resolve()),
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LS_DIR": str(folder),
        "VLLM_URL": f"http://{HOST}:{model_port}/v1",
    }
    program = Program(
        [*command, "--port", str(port)], environment, folder, folder / "server.log", port, START_TIMEOUT_S
    )
    with started(program) as server:
        yield server


@dataclass(frozen=True, slots=True)
class PeerHistory:
    """Copies a session and a turn of the peer's own.

    Attributes:
        session, turn: the rows it wrote.
        question_characters, answer_characters: how long the texts of a copied turn are.
    """

    database: Path
    session: Mapping[str, Any]
    turn: Mapping[str, Any]
    question_characters: int
    answer_characters: int

    def sessions(self, agent_id: str, number: int, turns: int) -> list[str]:
        session_ids = [str(uuid4()) for _ in range(number)]
        with closing(sqlite3.connect(self.database)) as connection, connection:
            for session_id in session_ids:
                connection.executemany(
                    "INSERT INTO kvstore VALUES (?, ?, NULL)", self._rows(agent_id, session_id, turns)
                )
        return session_ids

    def _rows(self, agent_id: str, session_id: str, turns: int) -> Iterator[tuple[str, str]]:
        key = f"session:{agent_id}:{session_id}"
        yield key, json.dumps({**self.session, "session_id": session_id})
        for number in range(turns):
            turn_id = str(uuid4())
            yield f"{key}:{turn_id}", json.dumps(self._turn(session_id, turn_id, number))

    def _turn(self, session_id: str, turn_id: str, number: int) -> dict[str, Any]:
        body = {**self.turn["output_message"], "content": answer(number, self.answer_characters)}
        input_message = {**self.turn["input_messages"][0], "content": question(number, self.question_characters)}
        step = {**self.turn["steps"][0], "turn_id": turn_id, "step_id": str(uuid4()), "model_response": body}
        ids = {"turn_id": turn_id, "session_id": session_id}
        return {**self.turn, **ids, "input_messages": [input_message], "steps": [step], "output_message": body}


def history_of(connection: Connection, folder: Path, model: str, characters: tuple[int, int]) -> PeerHistory:
    """Let the peer write a session with one turn, and return a history that copies them.

    Its agent is removed again, so that none but those made later are listed.
    """
    config = {"model": model, "instructions": "", "enable_session_persistence": True}
    agent_id = connection.post("/v1/agents", {"agent_config": config}).json()["agent_id"]
    path = f"/v1/agents/{agent_id}/session"
    session_id = connection.post(path, {"session_name": "past"}).json()["session_id"]
    body = {"stream": True, "messages": [{"role": "user", "content": "instant"}]}
    *_, last = connection.post(f"{path}/{session_id}/turn", body).events()
    key = f"session:{agent_id}:{session_id}"
    database = folder / DATABASE
    with closing(sqlite3.connect(database)) as store, store:
        session, turn = (
            json.loads(store.execute("SELECT value FROM kvstore WHERE key = ?", (written,)).fetchone()[0])
            for written in (key, f"{key}:{last['turn']['turn_id']}")
        )
        store.execute("DELETE FROM kvstore WHERE key = ? OR key LIKE ?", (f"agent:{agent_id}", f"{key}%"))
    return PeerHistory(database, session, turn, *characters)
