"""A hostile server that speaks as Turnstone does: its turns call client tools, one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

Json = dict[str, Any]
TURN = {"turn_id": "t", "session_id": "s", "input_messages": [], "steps": [], "output_attachments": []}


class HostileServer:
    """Opens turns while the `with` block lasts; each pauses for the given calls, then repeats their results.

    Attributes:
        answers: what the client answered, in order.
    """

    def __init__(self, *calls: Json) -> None:
        self._calls: Sequence[Json] = calls
        self.answers: list[Json] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content: Json = {"turns": []} if self.path.endswith("/s") else outer._turn()
                self._answer("application/json", json.dumps(content).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not self.path.endswith(("/turn", "/resume")):
                    self._answer("application/json", json.dumps({"agent_id": "a", "session_id": "s"}).encode())
                    return
                outer.answers += body.get("tool_responses", ())
                self._answer("text/event-stream", b"".join(map(_event, outer._payloads())))

            def _answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.send_header("x-turn-status", "completed")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _turn(self) -> Json:
        calls = self._calls[len(self.answers) :][:1]
        content = json.dumps([answer["content"] for answer in self.answers])
        message = {"content": "" if calls else content, "stop_reason": "end_of_turn", "tool_calls": calls}
        return {**TURN, "output_message": message}

    def _payloads(self) -> list[Json]:
        turn = self._turn()
        kind = "turn_awaiting_input" if turn["output_message"]["tool_calls"] else "turn_complete"
        return [{"event_type": "turn_start", "turn_id": "t"}, {"event_type": kind, "turn": turn}]


def _event(payload: Json) -> bytes:
    return b"data: " + json.dumps({"event": {"payload": payload}}).encode() + b"\n\n"
