"""Helpers for tests of a server's restarts: a slow model, and a kill in the middle of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.fakes.models.openai_answers import Answer, Pause, built_in_answer, call_answer, ending, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import Json, PlainClient, text_in, turn_body
from tests.support.server.servers import ServerProcess

TOOL = {"name": "get_weather", "description": "Tell the weather.", "parameters": []}
ONE_SECOND = "stream-1"  # four words, a quarter of a second apart
WORDS = "word0 word1 word2 word3 "


def answer_of(body: Mapping[str, Any]) -> Answer:
    """Answer as the built-in models do; `clock-then-slow` calls the clock and then takes a second to answer."""
    if body["model"] != "clock-then-slow":
        return built_in_answer(body)
    if body["messages"][-1]["role"] == "user":
        return call_answer(("current_time", "{}"))
    return (text_chunk("It is "), Pause(1), text_chunk("late."), *ending("stop"))


class Served:
    """Starts a server over a folder of its own, whatever its settings, with a client that speaks to it."""

    def __init__(self, stack: ExitStack, folder: Path, model: ModelServer) -> None:
        self._stack = stack
        self._folder = folder
        self._model = model

    def __call__(self, **settings: object) -> tuple[ServerProcess, PlainClient]:
        server = self._stack.enter_context(ServerProcess(self._folder, model_url=self._model.url, **settings))
        return server, self._stack.enter_context(PlainClient(server.url))


def received_until_killed(server: ServerProcess, client: PlainClient, path: str, body: Json) -> list[Json]:
    """Stream a turn and kill the server at the first delta; return the received events."""
    received = []
    with client.streaming(path, body) as events:
        for event in events:
            received.append(event)
            if text_in([event]):
                break
        server.kill()
    return received


def begin_and_leave(client: PlainClient, session: str) -> str:
    """Start a turn, hang up after its first event, and return its id."""
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id: str = next(events)["turn_id"]
    return turn_id
