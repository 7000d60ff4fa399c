"""The world of a scenario: a server in this process, the servers it calls, and a log of all requests and answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.fakes.models.openai_answers import Answer, Pause
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.tools.hostile_mcp_server import HostileMcpServer, Message, Reply
from tests.fakes.web.web_server import WebAnswer, WebRequest, WebServer
from tests.golden import product
from tests.golden.normal import Normaliser
from tests.golden.product import FakeClock, Product
from tests.golden.records import SHARDS, Left, lines_of
from tests.golden.writing import body_lines, compact
from tests.support.models.worded_model import answer_by_words
from tests.support.server import asgi_client
from tests.support.server.asgi_client import Answered, AsgiClient, Raw

# added by libraries
LIBRARY = re.compile(r"\b(python-[\w-]+)/[\d.]+")
OF_LIBRARIES = frozenset({"host", "connection", "accept-encoding", "content-length", "transfer-encoding"})
REQUEST_ID = re.compile(r"[0-9a-f]{24}")  # in every answer; the transcript has a line for any other value
OF_THE_CONTENT = frozenset({"content-length", "content-security-policy", "etag"})
SLEEP_S = 0.002
FRACTION_S = 0.25  # whole seconds are written without a fraction, and some clients compare times as texts
Stores = Callable[[Path], tuple[Any, Any]]


@dataclass
class Upstream:
    """A request of the server to another server."""

    name: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Exchange:
    """A request, the upstream requests until the next one, and the answer."""

    number: int
    sender: str
    request: Raw
    upstream: list[Upstream] = field(default_factory=list)
    answer: Answered | None = None
    note: str = ""
    is_brief: bool = False
    is_parallel: bool = False
    shown: Callable[[bytes], bytes] | None = None


class Begun(NamedTuple):
    """A request whose answer is pending."""

    exchange: Exchange
    client: AsgiClient
    task: asgi_client.Begun


class Hold:
    """A gate in a model's answer: `reached` is set when the answer stops at it, `open` lets it continue."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def items(self) -> Iterator[Pause]:
        """Yield pauses until the gate opens, so that the model server can serve other requests until then."""
        self.reached.set()
        while not self._opened.wait(0):
            yield Pause(SLEEP_S)

    def open(self) -> None:
        self._opened.set()


class World:
    """The world of one scenario over one store, within its `with` block.

    Attributes:
        clock: the server's clock; each request and each upstream request takes a second.
        exchanges: all requests with their answers, in the order of the requests.
        is_parallel: upstream requests may be concurrent: the clock stands still, and they are sorted by server.
    """

    def __init__(self, folder: Path, stores: Stores, seed: int, left: Callable[[], Left]) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.clock.advance(FRACTION_S)
        self.is_parallel = False
        self.exchanges: list[Exchange] = []
        self.routes: set[tuple[str, str]] = set()
        self.shards = SHARDS
        self._stores = stores
        self._seed = seed
        self._left = left
        self._stack = ExitStack()
        self._names: dict[str, str] = {}
        self._products: list[Product] = []
        self.keys: dict[str, str] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._notes: list[str] = []
        self._client: AsgiClient | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(product.steadied(self.clock, self._seed))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if exc_info[0] is None:
            self.left = self._left()
        self._stack.close()

    # ── servers and callers ──────────────────────────────────────────────────────────────────────────────────────────

    def model(
        self,
        answer: Callable[[dict[str, Any]], Answer] = answer_by_words,
        name: str = "model",
        **more: Any,
    ) -> str:
        """Start a model server; return its URL."""
        server = ModelServer(answer, **more)
        server.on_request = lambda *fields: self._note_upstream(Upstream(name, *fields))
        self._stack.enter_context(server)
        self._names[f"127.0.0.1:{server.port}"] = f"<{name}>"
        return server.url

    def web(self, answers: Callable[[WebRequest], WebAnswer], name: str = "web") -> str:
        """Start a web server; return its URL."""

        def noted(request: WebRequest) -> WebAnswer:
            self._note_upstream(Upstream(name, request.method, request.target, request.headers, request.body))
            return answers(request)

        server = self._stack.enter_context(WebServer(noted))
        self._names[f"127.0.0.1:{server.port}"] = f"<{name}>"
        return server.url

    def mcp(self, reply: Callable[[Message, Mapping[str, str]], Reply], name: str = "mcp") -> str:
        """Start an MCP server, which answers by message and headers; return its URL."""

        def noted(message: Message) -> Reply:
            self._note_upstream(Upstream(name, "POST", "/mcp", server.headers[-1], compact(message).encode()))
            return reply(message, server.headers[-1])

        server = HostileMcpServer(noted)
        self._stack.enter_context(server)
        self._names[f"127.0.0.1:{server.port}"] = f"<{name}>"
        return server.url()

    def allowed(self, *urls: str) -> str:
        """Return the value of `fetch_allow` for these addresses."""
        return ",".join(url.split("/")[2] for url in urls)

    def serve(self, **settings: Any) -> Self:
        """Start a server process; a second call starts another process over the same data."""
        if "model_url" not in settings and "config" not in settings:
            settings["model_url"] = self.model()
        if "config" in settings:
            file = self.folder / "turnstone.toml"
            file.write_text(settings["config"])
            settings["config"] = file
        made = Product(self._stores, self.folder, **settings)
        client = AsgiClient(made.app)
        self._stack.enter_context(client.lifespan())
        self._products.append(made)
        self._client = client
        return self

    @property
    def process(self) -> Product:
        """The newest process."""
        return self._products[-1]

    def key(self, name: str, tenant: str = "acme", **groups: tuple[str, ...]) -> str:
        """Create an API key, which requests use by its name as `sender`."""
        self.keys[name] = self.process.key(name, tenant, **groups)
        self._names[self.keys[name]] = f"<key of {name}>"
        return name

    def token(self, name: str, token: str) -> str:
        """Use a token for requests with this name as `sender`."""
        self.keys[name] = token
        self._names[token] = f"<token {name}>"
        return name

    def rename(self, text: str, name: str) -> None:
        """Replace a text that differs from run to run by a name in transcripts."""
        self._names[text] = name

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────

    def send(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        sender: str = "",
        raw: bytes | None = None,
        settles: bool = True,
        shown: Callable[[bytes], bytes] | None = None,
        **headers: str,
    ) -> Answered:
        """Send a request and return its answer when its turn has ended; an underscore in a header is a dash.

        `shown` converts the answer's body for the transcript.
        """
        begun = self.begin(method, target, body, sender=sender, raw=raw, **headers)
        begun.exchange.shown = shown
        return self.finish(begun, settles=settles)

    def begin(
        self, method: str, target: str, body: Any = None, *, sender: str = "", raw: bytes | None = None, **headers: str
    ) -> Begun:
        """Send a request without waiting; `finish` returns its answer."""
        assert self._client is not None, "no server runs"
        sent = raw if raw is not None else (b"" if body is None else compact(body).encode())
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        if sender:
            named.append((b"authorization", f"Bearer {self.keys[sender]}".encode()))
        request = Raw(method, target.encode(), (sent,), tuple(named))
        return self.begin_raw(request, sender)

    def begin_raw(self, request: Raw, sender: str = "", *, is_brief: bool = False) -> Begun:
        """Send a raw request; the transcript of a brief one has its request line only."""
        assert self._client is not None, "no server runs"
        self.clock.advance(1)
        exchange = Exchange(next(self._numbers), sender, request, is_brief=is_brief, is_parallel=self.is_parallel)
        self.exchanges.append(exchange)
        return Begun(exchange, self._client, self._client.begin(request))

    def finish(self, begun: Begun, *, settles: bool = True) -> Answered:
        """Wait for the answer of a pending request."""
        begun.exchange.answer = begun.client.finish(begun.task)
        if settles:
            self.settle()
        return begun.exchange.answer

    def until_answered(self, begun: Begun) -> None:
        """Run the server until it begins to answer."""
        begun.client.go_on_until(lambda: len(begun.task.sent) > 0)

    def until(self, event: threading.Event) -> None:
        """Run the server until the event is set."""
        assert self._client is not None, "no server runs"
        self._client.go_on_until(event.is_set)

    def until_held(self, hold: Hold) -> None:
        """Run the server until a model's answer stops at the gate and the turn has published the text before it."""
        assert self._client is not None, "no server runs"
        self._client.go_on_until(lambda: hold.reached.is_set() and self.process.has_published_text())

    def settle(self) -> None:
        for process in self._products:
            process.settle()

    def reconcile(self) -> None:
        """Run the supervisor of the newest process for the turns that are due."""
        self.note("the supervisor runs")
        self.process.reconcile()

    def work(self) -> None:
        """Run the clean-up jobs that are due in the newest process."""
        self.note("clean-up jobs run")
        self.process.work()

    def pass_time(self, seconds: float) -> None:
        self.note(f"{seconds:g} s pass")
        self.clock.advance(seconds)

    def lose_payloads(self) -> None:
        """Delete all payloads outside of records."""
        self.process.lose_payloads()

    def note(self, text: str) -> None:
        """Add a note to the transcript."""
        self.exchanges.append(Exchange(0, "", Raw("", b""), note=text))

    def _note_upstream(self, request: Upstream) -> None:
        with self._lock:
            self.clock.advance(0 if self.is_parallel else 1)
            if not self.exchanges:
                self.note("while the server starts")
            self.exchanges[-1].upstream.append(request)

    # ── shorthands ───────────────────────────────────────────────────────────────────

    def post(self, target: str, body: Any, **more: Any) -> Any:
        """Return the JSON of the answer."""
        return self.send("POST", target, body, **more).json()

    def get(self, target: str, **more: Any) -> Any:
        return self.send("GET", target, **more).json()

    def agent(self, sender: str = "", **config: Any) -> str:
        """Return the id of a new agent."""
        values = {"model": "stub-llm", "instructions": "Be brief.", **config}
        made: str = self.post("/v1/agents", {"agent_config": values}, sender=sender)["agent_id"]
        return made

    def session(self, agent_id: str | None = None, sender: str = "", **config: Any) -> str:
        """Return the path of a new session, of a new agent unless one is named."""
        agent_id = agent_id or self.agent(sender, **config)
        path = f"/v1/agents/{agent_id}/session"
        return f"{path}/{self.post(path, {'session_name': 'golden'}, sender=sender)['session_id']}"

    def turn(self, session: str, text: str, *, stream: bool = False, **more: Any) -> Answered:
        """Create a turn with one user message; return the answer. `fields` are added to the body."""
        body = {**from_user(text), **more.pop("fields", {}), "stream": stream}
        return self.send("POST", f"{session}/turn", body, **more)

    # ── transcripts ─────────────────────────────────────────────────────────────────────────────────────

    def texts(self, constant: Collection[str]) -> tuple[str, str, set[str]]:
        """Return the transcript of requests and answers, that of the records, and all tokens in both."""
        left = self.left
        normalise = Normaliser({**product.VERSIONS, **self._names}, constant)
        wire = "\n".join(self._wire_lines(normalise)) + "\n"
        return wire, "\n".join([*lines_of(left, normalise, self.shards), ""]), normalise.tokens

    def _wire_lines(self, normalise: Normaliser) -> Iterator[str]:
        for exchange in self.exchanges:
            if exchange.note:
                yield f"### {exchange.note}"
            else:
                yield from _request_lines(exchange, normalise)
            requests = (
                sorted(exchange.upstream, key=lambda request: request.name)
                if exchange.is_parallel
                else exchange.upstream
            )
            for request in requests:
                yield from _upstream_lines(request, normalise)
            if exchange.answer is not None:
                yield from _answer_lines(exchange, exchange.answer, normalise)
            yield ""


def _request_lines(exchange: Exchange, normalise: Normaliser) -> Iterator[str]:
    request = exchange.request
    yield f">>> {exchange.number} {request.method} {normalise(request.target.decode('latin-1'))}"
    if exchange.is_brief:
        return
    for name, value in request.headers:
        if name.lower().decode() not in OF_LIBRARIES:
            yield normalise(f"{name.decode().lower()}: {value.decode('latin-1')}")
    yield from _body(b"".join(request.body), normalise)


def _upstream_lines(request: Upstream, normalise: Normaliser) -> Iterator[str]:
    yield f"... to {request.name}: {request.method} {normalise(request.target)}"
    for name in sorted(request.headers):
        if name not in OF_LIBRARIES:
            yield LIBRARY.sub(r"\1/<version>", normalise(f"{name}: {request.headers[name]}"))
    yield from _body(request.body, normalise)


def _answer_lines(exchange: Exchange, answer: Answered, normalise: Normaliser) -> Iterator[str]:
    yield f"<<< {exchange.number} {answer.status}"
    for name, value in answer.headers.items():
        if exchange.shown is None or name not in OF_THE_CONTENT:
            yield normalise(f"{name}: {value}")
    if not REQUEST_ID.fullmatch(answer.request_id):
        yield f"x-request-id: {answer.request_id!r}"
    yield from _body(answer.body if exchange.shown is None else exchange.shown(answer.body), normalise)


def _body(body: bytes, normalise: Normaliser) -> Iterator[str]:
    try:
        text = normalise(body.decode())
    except UnicodeDecodeError:
        yield from body_lines(body)
        return
    yield from body_lines(text.encode())


def from_user(text: str) -> dict[str, Any]:
    """Return the field `messages` with one user message."""
    return {"messages": [{"role": "user", "content": text}]}
