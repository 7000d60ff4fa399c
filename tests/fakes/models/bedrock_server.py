"""A Bedrock that speaks Converse and ConverseStream over loopback, by script; no model in it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

from tests.fakes.models.openai_answers import HangUp, HttpAnswer
from tests.fakes.models.openai_server import HOST, ModelServer, Script, encoded_http


class BedrockServer(ModelServer):
    """The server, while its `with` block lasts. Its script's streams are made of frames.

    Attributes:
        model_requests: model and verb, `converse` or `converse-stream`, of each request.
    """

    def __init__(self, script: Script, *, split: int | None = None) -> None:
        """Prepare a server.

        Args:
            script: a function from body to answer, or the answers to successive requests.
            split: send streams in HTTP chunks of so many bytes; None sends one chunk per frame.
        """
        super().__init__(script, strict=False, split=split)
        self.model_requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{HOST}:{self.port}"

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection is kept."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body: dict[str, Any] = json.loads(await reader.readexactly(int(headers["content-length"])))
        _, kind, model, verb = head[0].split(" ")[1].split("/")
        assert kind == "model"
        self.model_requests.append((unquote(model), verb))
        self.requests.append(body)
        self.headers.append(headers)
        answer = self._answer(body)
        if isinstance(answer, HangUp):
            return False
        if isinstance(answer, HttpAnswer):
            writer.write(encoded_http(answer))
            return True
        return await self._send_stream(answer, reader, writer)
