"""A client with nothing between the test and the wire."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx

from tests.support.server.servers import wait_until

TIMEOUT_S = 30.0
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without certificates: each new client would load them, for no use

Json = dict[str, Any]


class PlainClient:
    """Speaks the Agents API over kept connections, while the `with` block lasts. It retries nothing by itself."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, authorization: str | None = None) -> None:
        headers = {"authorization": authorization} if authorization else None
        self._http = httpx.Client(base_url=url, timeout=timeout_s, headers=headers, verify=PLAIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.close()

    def open_session(self, model: str = "instant", **config: Any) -> str:
        """Return the path of a new session of a new agent."""
        agent_config = {"model": model, "instructions": "Be brief.", **config}
        agent = self.post("/v1/agents", {"agent_config": agent_config})
        path = f"/v1/agents/{agent.json()['agent_id']}/session"
        session = self.post(path, {"session_name": "first"})
        return f"{path}/{session.json()['session_id']}"

    def post(self, path: str, body: Json, **headers: str) -> httpx.Response:
        """Return the whole answer, whatever its status. An underscore in a header's name stands for a dash."""
        return self._http.post(path, json=body, headers=named(headers))

    def fetch(self, path: str) -> httpx.Response:
        """Return the whole answer to a GET, whatever its status."""
        return self._http.get(path)

    def get(self, path: str) -> Json:
        response = self.fetch(path)
        assert response.status_code == 200, response.text
        answer: Json = response.json()
        return answer

    def status_of(self, path: str) -> int:
        return self._http.get(path).status_code

    def port(self) -> int:
        """Return the port that its connection has on this side."""
        address = self._http.get("/v1/health").extensions["network_stream"].get_extra_info("client_addr")
        return int(address[1])

    def delete(self, path: str) -> httpx.Response:
        return self._http.delete(path)

    def get_events(self, path: str) -> list[Json]:
        """Return every event of a stream that is read."""
        with self._http.stream("GET", path) as response:
            return list(events_in(response.iter_lines()))

    @contextmanager
    def streaming(self, path: str, body: Json, **headers: str) -> Iterator[Iterator[Json]]:
        """Request a stream and give its events as they come; leaving the block hangs up."""
        streamed_body = {**body, "stream": True}
        with self._http.stream("POST", path, json=streamed_body, headers=named(headers)) as response:
            if response.status_code != 200:
                response.read()
            assert response.status_code == 200, response.text
            yield events_in(response.iter_lines())

    def streamed(self, path: str, body: Json, **headers: str) -> list[Json]:
        """Return every event of a stream."""
        with self.streaming(path, body, **headers) as events:
            return list(events)

    def ended_turn(self, path: str, timeout_s: float = TIMEOUT_S) -> Json:
        """Return the turn once it has ended."""
        seen: list[Json] = []

        def has_ended() -> bool:
            seen.append(self.get(path))
            return seen[-1]["completed_at"] is not None

        wait_until(has_ended, timeout_s, "the turn did not end")
        return seen[-1]


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def events_in(lines: Iterable[str]) -> Iterator[Json]:
    """Yield each event's payload, an error chunk as it is."""
    for line in lines:
        if line.startswith("data: "):
            chunk: Json = json.loads(line.removeprefix("data: "))
            yield chunk["event"]["payload"] if "event" in chunk else chunk


def turn_body(text: str) -> Json:
    """Return the body of a turn with one message of a user."""
    return {"messages": [{"role": "user", "content": text}]}


def answering(turn: Json, content: str) -> Json:
    """Return the body of a resume that answers every pending call with the same."""
    calls = turn["output_message"]["tool_calls"]
    responses = [{"call_id": c["call_id"], "tool_name": c["tool_name"], "content": content} for c in calls]
    return {"tool_responses": responses}


def text_in(events: Iterable[Json]) -> str:
    """Return the text of all deltas."""
    deltas = (event["delta"] for event in events if event["event_type"] == "step_progress")
    return "".join(delta["text"] for delta in deltas if delta["type"] == "text")
