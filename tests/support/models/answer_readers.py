"""Readers of a model's streamed answer: its events, and a client that disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from tests.support.server.asgi_client import Answered, Raw, scope_of


def events_of(answer: Answered) -> list[dict[str, Any]]:
    data = [event.removeprefix("data: ") for event in answer.body.decode().split("\n\n") if event]
    return [json.loads(each) for each in data if each != "[DONE]"]


class Leaver:
    """A client that is gone after the first piece of an answer, or a moment after its request."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._incoming = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self._leaves = asyncio.Event()

    async def receive(self) -> Mapping[str, Any]:
        if self._incoming:
            return self._incoming.pop()
        await self._leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        if message.get("body"):
            self._leaves.set()

    async def send_and_leave(self, app: Any, path: str) -> None:
        asyncio.get_running_loop().call_later(0.2, self._leaves.set)
        await app(scope_of(Raw("POST", path.encode())), self.receive, self.send)
