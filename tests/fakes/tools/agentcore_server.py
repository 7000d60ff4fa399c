"""AgentCore's code interpreter over loopback, by script: sessions are started and stopped, and no code is run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.models.bedrock_frames import event
from tests.fakes.models.bedrock_server import BedrockServer
from tests.fakes.models.openai_answers import Answer, HangUp, HttpAnswer
from tests.fakes.models.openai_server import encoded_http

DAY = "2026-01-01T00:00:00Z"


class AgentCoreServer(BedrockServer):
    """The server, while its `with` block lasts.

    Attributes:
        session_requests: the requests in order: `start`, `stop` or a tool's name, the session, the body.
        refusal: the answer to the start of a session instead.
    """

    def __init__(self, answers: Mapping[str, Answer | list[Answer]], refusal: HttpAnswer | None = None) -> None:
        """Prepare a server that answers each tool so, or with one answer after the other."""
        super().__init__(())
        self._answers = {name: iter(answer) if isinstance(answer, list) else answer for name, answer in answers.items()}
        self.refusal = refusal
        self.session_requests: list[tuple[str, str, dict[str, Any]]] = []

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.session_requests]

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        method, target, _ = head[0].split(" ")
        url = urlsplit(target)
        self.headers.append(headers)
        _, kind, _, *verb = url.path.split("/")
        assert kind == "code-interpreters"
        answer = self._answer_to_call((method, *verb), body, headers, parse_qs(url.query))
        if isinstance(answer, HangUp):
            return False
        if isinstance(answer, HttpAnswer):
            writer.write(encoded_http(answer))
            return True
        return await self._send_stream(answer, reader, writer)

    def _answer_to_call(
        self, path: tuple[str, ...], body: dict[str, Any], headers: dict[str, str], query: dict[str, list[str]]
    ) -> Answer:
        match path:
            case ("PUT", "sessions", "start"):
                session_id = f"session{self.names.count('start') + 1}"
                self.session_requests.append(("start", session_id, body))
                started = {"codeInterpreterIdentifier": "x", "sessionId": session_id, "createdAt": DAY}
                return self.refusal or HttpAnswer(200, started)
            case ("PUT", "sessions", "stop"):
                (session_id,) = query["sessionId"]
                self.session_requests.append(("stop", session_id, body))
                stopped = {"codeInterpreterIdentifier": "x", "sessionId": session_id, "lastUpdatedAt": DAY}
                return HttpAnswer(200, stopped)
            case ("POST", "tools", "invoke"):
                name = body["name"]
                self.session_requests.append((name, headers["x-amzn-code-interpreter-session-id"], body["arguments"]))
                answer = self._answers[name]
                return next(answer) if hasattr(answer, "__next__") else answer
        raise AssertionError(f"AgentCore has no {path}")


def result(*content: dict[str, Any], **fields: Any) -> bytes:
    return event("result", content=list(content), **fields)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def listing(*names: str, folders: tuple[str, ...] = ()) -> tuple[bytes, ...]:
    files = [_link(name, "File") for name in names]
    return (result(*files, *(_link(name, "Directory") for name in folders)),)


def _link(name: str, description: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": f"file:///{name}", "name": name, "description": description}


def ran(stdout: str = "", stderr: str = "", exit_code: int = 0) -> tuple[bytes, ...]:
    structured = {"stdout": stdout, "stderr": stderr, "exitCode": exit_code, "executionTime": 0.1}
    return (result(text(stdout or stderr), structuredContent=structured, isError=exit_code != 0),)
