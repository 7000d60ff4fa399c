"""A model server that speaks the OpenAI chat-completions API: vLLM, llama.cpp, Ollama, LM Studio, OpenAI itself."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)
from urllib3.util import parse_url

from turnstone.adapters.connections import Line, asking_over, patient_pools
from turnstone.adapters.model_access import ModelAccess
from turnstone.adapters.model_responses import READ_BYTES, error_text_of, settle, wait_before_retry
from turnstone.adapters.openai_answer import AnswerReader, call_ids_of
from turnstone.adapters.openai_wire import GrammarServer, request_body
from turnstone.adapters.quoting import quoted
from turnstone.adapters.sse_reader import EventTooLarge, SseReader
from turnstone.domain.errors import ModelError, ModelFailed, ModelTimedOut
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.routing import Target
from turnstone.domain.stopping import StopSignal
from turnstone.ports import Capability, InferenceRequest, Inferred, TextChunk

SILENCE_TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 5.0
MODELS_TIMEOUT_S = 5.0
POOL_SIZE = 64
MAX_ANSWER_BYTES = 64 * 1024 * 1024
RETRIES = 2
FIRST_BACKOFF_S = 0.2

Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attempt without an answer. `wait_s` is the least to wait before the next, None if there shall be none."""

    error: ModelError
    wait_s: float | None = None
    cause: Exception | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """A question under way: who asks with which key, what may be quoted, and what can cut it."""

    model: str | None
    key: str
    quote: Quote
    line: Line
    path: str = "/chat/completions"


class OpenAICompatibleInference:
    """The models behind one address, asked over connections that are kept."""

    def __init__(
        self,
        base_url: str,
        access: ModelAccess | str | None = None,
        timeout_s: float = SILENCE_TIMEOUT_S,
        grammar_server: GrammarServer | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            base_url: the address up to, and without, `/chat/completions`.
            access: how the server knows us; a text is the key to ask with.
            timeout_s: how long the server may be silent, before its answer and within it.
            grammar_server: what the server is, if it is one that takes grammars.

        Raises:
            ValueError: the key can't be sent in a header.
        """
        url = parse_url(base_url.strip().rstrip("/"))
        self._base_path = url.request_uri.rstrip("/")
        self._base_url = f"{url.scheme}://{url.netloc}{self._base_path}"
        self._shown_url = url._replace(auth=None, query=None, fragment=None).url
        self._access = access if isinstance(access, ModelAccess) else ModelAccess(access)
        self._grammar_server = grammar_server
        self._timeout = Timeout(connect=CONNECT_TIMEOUT_S, read=timeout_s)
        self._pool = patient_pools(POOL_SIZE).connection_from_url(url.url)

    def stream(self, request: InferenceRequest) -> Iterator[TextChunk | Inferred]:
        """Yield the answer as it arrives. Closing the generator early drops the connection, and with it the answer.

        An attempt is repeated, at most twice, only as long as no answer has begun: when the server can't be connected
        to, hangs up without a word, or answers 429, 502, 503 or 504.

        Raises:
            ModelFailed: the server can't be reached, refuses, breaks off or talks nonsense.
            ModelTimedOut: it was silent for too long.
        """
        line = Line()
        with (request.stop or StopSignal()).heeded_by(line.cut), asking_over(line):
            yield from self._streamed(request, line)

    def _streamed(self, request: InferenceRequest, line: Line) -> Iterator[TextChunk | Inferred]:
        key = self._access.key(request.provider_data)
        quote = partial(quoted, messages=request.messages, secrets=(key,))
        answer = AnswerReader(call_ids_of(request.messages), quote)
        asking = Asking(request.model, key, quote, line)
        response = self._opened(json.dumps(request_body(request, self._grammar_server)).encode(), asking)
        try:
            for data in self._events(response):
                if text := answer.read(data):
                    yield TextChunk(text)
                if answer.is_over:
                    break
            yield answer.inferred()
        finally:
            settle(response, may_be_kept=answer.is_over)

    def posted(self, path: str, body: Mapping[str, Any], request: InferenceRequest) -> bytes:
        """Return the whole answer to a body that is no chat, of the one who sends the request. Raises ModelError."""
        line = Line()
        with (request.stop or StopSignal()).heeded_by(line.cut), asking_over(line):
            key = self._access.key(request.provider_data)
            asking = Asking(request.model, key, partial(quoted, messages=request.messages, secrets=(key,)), line, path)
            response = self._opened(json.dumps(body).encode(), asking)
            try:
                return b"".join(self._read(response))
            finally:
                settle(response, may_be_kept=True)

    def models(self) -> tuple[str, ...]:
        """Return the ids the server lists. Raises ModelError."""
        key = self._access.key(NO_PROVIDER_DATA)
        asking = Asking(None, key, partial(quoted, messages=(), secrets=(key,)), Line(), "/models")
        answer = self._attempt(None, asking)
        if isinstance(answer, Refusal):
            raise answer.error from answer.cause
        try:
            if answer.status != 200:
                raise self._refused(answer, asking).error
            listed = json.loads(b"".join(self._read(answer)))
            return tuple(str(model["id"]) for model in listed["data"])
        except (ValueError, RecursionError, KeyError, TypeError) as exc:
            raise ModelFailed(f"{self._shown_url}/models does not list models as an OpenAI-compatible API") from exc
        finally:
            settle(answer, may_be_kept=False)

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:  # noqa: ARG002 - all are one
        """Return `grammar` if the server is said to take one; nothing else need be asked for."""
        return frozenset(("grammar",) if self._grammar_server else ())

    def _opened(self, body: bytes, asking: Asking) -> BaseHTTPResponse:
        """Return a response of status 200 whose body has not been read. Raises ModelError."""
        attempts_left = RETRIES
        backoff_s = FIRST_BACKOFF_S
        while True:
            answer = self._attempt(body, asking)
            if not isinstance(answer, Refusal):
                if answer.status == 200:
                    return answer
                answer = self._refused(answer, asking)
            if answer.wait_s is None or not attempts_left or asking.line.is_cut:
                raise answer.error from answer.cause
            time.sleep(max(answer.wait_s, backoff_s * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter, not a secret
            attempts_left -= 1
            backoff_s *= 2

    def _attempt(self, body: bytes | None, asking: Asking) -> BaseHTTPResponse | Refusal:
        """Return the response, of whatever status, or why there is none."""
        method = "GET" if body is None else "POST"
        headers = self._access.headers(asking.key, method, self._base_url + asking.path, body)
        try:
            return self._pool.urlopen(
                method,
                self._base_path + asking.path,
                body=body,
                headers=headers,
                timeout=Timeout(MODELS_TIMEOUT_S) if body is None else self._timeout,
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except ReadTimeoutError as exc:
            return Refusal(ModelTimedOut(f"the model server at {self._shown_url} did not answer in time"), None, exc)
        except NewConnectionError as exc:
            error_text = f"can't connect to the model; is the model server running at {self._shown_url}?"
            return Refusal(ModelFailed(error_text, is_outage=True), 0.0, exc)
        except ConnectTimeoutError as exc:
            error = ModelTimedOut(f"no connection to {self._shown_url} in {CONNECT_TIMEOUT_S:g} s")
            return Refusal(error, None, exc)
        except ProtocolError as exc:
            error_text = f"the model server at {self._shown_url} hung up before it answered"
            said_nothing = isinstance(exc.args[-1], ConnectionError)
            return Refusal(ModelFailed(error_text, is_outage=True), 0.0 if said_nothing else None, exc)
        except HTTPError as exc:
            error_text = f"can't talk to the model server at {self._shown_url} ({type(exc).__name__})"
            return Refusal(ModelFailed(error_text, is_outage=True), None, exc)

    def _refused(self, response: BaseHTTPResponse, asking: Asking) -> Refusal:
        """Return what a response of another status than 200 means."""
        status = response.status
        if 300 <= status < 400:
            meaning = f"{self._shown_url} redirects elsewhere; set TURNSTONE_MODEL_URL to the address behind it"
        elif status in (401, 403):
            meaning = f"the model server at {self._shown_url} does not accept the key; check TURNSTONE_MODEL_API_KEY"
        elif status == 404:
            wanted = "the list of models" if asking.model is None else f"model {asking.model!r}"
            meaning = f"{wanted} not found at {self._shown_url}; check the agent's model and TURNSTONE_MODEL_URL"
        elif status == 429:
            meaning = f"the model server at {self._shown_url} takes no more requests now"
        else:
            meaning = f"the model server at {self._shown_url} refused or failed"
        said = asking.quote(error_text_of(response))
        is_our_key = asking.key == self._access.key(NO_PROVIDER_DATA)
        is_outage = status >= 500 or (status == 429 and is_our_key)  # a caller's own limit says nothing of others
        told = f"{meaning} (HTTP {status})" + (f": {said}" if said else "")
        error = ModelFailed(told, is_outage=is_outage, status=status)
        return Refusal(error, wait_before_retry(response))

    def _events(self, response: BaseHTTPResponse) -> Iterator[str]:
        """Yield the data of each event, or the JSON text of a server that does not stream. Raises ModelError."""
        content_type = response.headers.get("Content-Type", "").lower()
        if content_type.startswith("application/json"):
            yield b"".join(self._read(response)).decode("utf-8", "replace")
            raise ModelFailed(f"{self._shown_url} answered with JSON that is no chat completion")
        reader = SseReader()
        has_events = False
        try:
            for chunk in self._read(response):
                for data in reader.feed(chunk):
                    has_events = True
                    if data.strip():
                        yield data.strip()
        except EventTooLarge as exc:
            raise ModelFailed(f"the model server at {self._shown_url} sent {exc}") from exc
        if not has_events and "event-stream" not in content_type:
            raise ModelFailed(
                f"{self._shown_url} does not answer as an OpenAI-compatible API; check TURNSTONE_MODEL_URL"
            )

    def _read(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the body's bytes as soon as they arrive. Raises ModelError."""
        left_bytes = MAX_ANSWER_BYTES
        try:
            while chunk := response.read1(READ_BYTES):
                left_bytes -= len(chunk)
                if left_bytes < 0:
                    raise ModelFailed(f"the model server at {self._shown_url} answers without end")
                yield chunk
        except ReadTimeoutError as exc:
            raise ModelTimedOut(f"the model server at {self._shown_url} fell silent while it answered") from exc
        except HTTPError as exc:
            raise ModelFailed(f"the answer of the model server at {self._shown_url} broke off", is_outage=True) from exc
