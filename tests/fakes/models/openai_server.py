"""A model server that speaks the OpenAI API over loopback, instant and strict; no model in it.

In a thread: `with ModelServer(script) as server: OpenAICompatibleInference(server.url, None)`.
In a process of its own: `python -m tests.fakes.models.openai_server --port 0` prints its port as the first line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from tests.fakes.models.openai_answers import (
    BUILT_IN_LIST,
    Answer,
    BreakOff,
    HangUp,
    HttpAnswer,
    Item,
    Pause,
    built_in_answer,
    embeddings_answer,
    encoded,
    error_answer,
    whole_answer,
)
from tests.fakes.models.openai_rules import refusal_of

HOST = "127.0.0.1"
START_TIMEOUT_S = 5.0
REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 404: "Not Found"}
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
Script = Callable[[dict[str, Any]], Answer] | Sequence[Answer]


class ModelServer:
    """The server, while its `with` block lasts.

    Attributes:
        requests: the bodies of the requested chat completions, in order.
        headers: their headers, names in lower case.
        connections: how many connections were ever opened.
        tls: the TLS context, set before the block; None for plain HTTP.
        on_request: called with method, path, headers and body of each request before it is answered.
    """

    def __init__(
        self,
        script: Script = built_in_answer,
        *,
        strict: bool = True,
        split: int | None = None,
        port: int = 0,
        listed: HttpAnswer = BUILT_IN_LIST,
        embed: Callable[[dict[str, Any]], Answer] = embeddings_answer,
        complete: Callable[[dict[str, Any]], Answer] | None = None,
    ) -> None:
        """Prepare a server.

        Args:
            script: a function from body to answer, or the answers to successive requests.
            strict: refuse the requests that real servers refuse.
            split: send event streams in HTTP chunks of so many bytes; None sends one chunk per event.
            port: 0 takes a free one.
            listed: the answer to `GET /v1/models`.
            embed: returns the answer to a body of an embeddings request.
            complete: returns the answer to a body of a text completion; None for a server without that route.
        """
        self._answer = script if callable(script) else one_after_the_other(script)
        self._strict = strict
        self._split = split
        self._listed = listed
        self._embed = embed
        self._complete = complete
        self.port = port
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.tls: ssl.SSLContext | None = None
        self.on_request: Callable[[str, str, dict[str, str], bytes], object] = lambda *_: None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/v1"

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="model-server")
        self._thread.start()
        assert self._started.wait(START_TIMEOUT_S), "the model server did not start"
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self.stop)
        self._thread.join()

    async def serve(self, on_start: Callable[[int], None] = lambda port: None) -> None:
        """Serve until stopped."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, self.port, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        on_start(self.port)
        await self._stop.wait()
        server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()

    def stop(self) -> None:
        assert self._stop is not None
        self._stop.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        self._serving.add(task := asyncio.create_task(self._serve_connection(reader, writer)))
        task.add_done_callback(self._serving.discard)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._serve_request(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self._writers.discard(writer)

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection is kept."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        fields = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.on_request(method, path, headers, body)
        match method, path.partition("?")[0]:
            case "POST", "/v1/chat/completions":
                answer = self._answer_to(body, headers)
            case "POST", "/v1/embeddings":
                answer = self._noted(self._embed, body, headers)
            case "POST", "/v1/completions" if self._complete is not None:
                answer = self._noted(self._complete, body, headers)
            case "GET", "/v1/models":
                answer = self._listed
            case "GET", "/__calls":
                answer = HttpAnswer(200, {"calls": len(self.requests)})
            case _:
                answer = error_answer(404, f"no route {method} {path}")
        if isinstance(answer, HangUp):
            return False
        if isinstance(answer, HttpAnswer):
            writer.write(encoded_http(answer))
            return headers.get("connection", "").lower() != "close"
        return await self._send_stream(answer, reader, writer)

    def _answer_to(self, body: bytes, headers: dict[str, str]) -> Answer:
        request = json.loads(body)
        self.requests.append(request)
        self.headers.append(headers)
        refusal = refusal_of(request) if self._strict else None
        if refusal is not None:
            return error_answer(400, refusal)
        answer = self._answer(request)
        if request.get("stream") or isinstance(answer, HttpAnswer | HangUp):
            return answer
        return whole_answer(tuple(answer))

    def _noted(self, answer: Callable[[dict[str, Any]], Answer], body: bytes, headers: dict[str, str]) -> Answer:
        request = json.loads(body)
        self.requests.append(request)
        self.headers.append(headers)
        return answer(request)

    async def _send_stream(
        self, items: Iterable[Item], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send the events; the head goes out with the first of them."""
        head = STREAM_HEAD
        unsent: list[bytes] = []
        for item in items:
            if not isinstance(item, Pause | BreakOff):
                unsent.append(encoded(item))
                continue
            if unsent:
                writer.write(head + self._chunked(unsent))
                unsent, head = [], b""
            if isinstance(item, BreakOff):
                return False
            await asyncio.sleep(item.seconds)
            if reader.at_eof() or writer.is_closing():
                return False
        writer.write(head + self._chunked(unsent) + b"0\r\n\r\n")
        await writer.drain()
        return True

    def _chunked(self, events: Iterable[bytes]) -> bytes:
        if self._split is not None:
            whole = b"".join(events)
            events = (whole[start : start + self._split] for start in range(0, len(whole), self._split))
        return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in events)


def one_after_the_other(answers: Iterable[Answer]) -> Callable[[dict[str, Any]], Answer]:
    """Return a script of these answers; further requests get a refusal that no real server sends."""
    remaining: Iterator[Answer] = iter(answers)
    return lambda body: next(remaining, error_answer(418, "the script has no more answers"))


def encoded_http(answer: HttpAnswer) -> bytes:
    is_json = isinstance(answer.body, Mapping)
    body = json.dumps(answer.body).encode() if isinstance(answer.body, Mapping) else answer.body
    headers = {
        "Content-Type": "application/json" if is_json else "text/plain",
        "Content-Length": str(len(body)),
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def serve_until_stdin_closes(server: ModelServer) -> None:
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, server.stop)
    await server.serve(on_start=lambda port: print(port, flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--lenient", action="store_true", help="accept histories that real servers refuse")
    arguments = parser.parse_args()
    asyncio.run(serve_until_stdin_closes(ModelServer(strict=not arguments.lenient, port=arguments.port)))


if __name__ == "__main__":
    main()
