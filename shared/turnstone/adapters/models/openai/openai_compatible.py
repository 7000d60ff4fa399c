"""A model server with the OpenAI chat-completions API: vLLM, llama.cpp, Ollama, LM Studio, OpenAI itself."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.util import parse_url

from turnstone.adapters.models.openai.model_access import ModelAccess, SettingNames
from turnstone.adapters.models.openai.model_responses import (
    error_text_of,
    jittered,
    retry_after_s,
    wait_before_retry,
)
from turnstone.adapters.models.openai.openai_answer import AnswerReader, call_ids_of
from turnstone.adapters.models.openai.openai_completions import (
    COMPLETIONS,
    MISSING_STATUSES,
    ContinuationReader,
    NoCompletions,
    completion_body,
    refuse_in_chat,
)
from turnstone.adapters.models.openai.openai_wire import GrammarServer, request_body, written
from turnstone.adapters.outgoing.connections import Line
from turnstone.adapters.outgoing.exchanges import ExchangeFailed, Exchanges, Response
from turnstone.adapters.outgoing.failed_attempt import FailedAttempt
from turnstone.adapters.outgoing.quoting import quoted, without_address
from turnstone.adapters.outgoing.sse_reader import EventTooLarge, SseReader
from turnstone.domain.errors import ModelBusy, ModelError, ModelFailed, ModelNotFound, ModelRefused, ModelTimedOut
from turnstone.domain.messages.messages import Message
from turnstone.domain.models.requests import Chunk, InferenceRequest, ReasoningChunk, Streamed, TextChunk, TextChunks
from turnstone.domain.models.routing import Target
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.models import Capability

if TYPE_CHECKING:
    from turnstone.adapters.models.openai.openai_logprobs import Logprobs

log = logging.getLogger(__name__)
SILENCE_TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 5.0
MODELS_TIMEOUT_S = 5.0
POOL_SIZE = 64
TEXTS_AT_ONCE = 64  # so that the first of many is out within a part of a millisecond
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MOST_CHAT_ONLY = 1_000
RETRIES = 2
FIRST_BACKOFF_S = 0.2
LONGEST_RETRY_AFTER_S = 21_600

Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request in progress: its key, its quoting of the server's text, and its cancellation."""

    model: str | None
    key: str
    quote: Quote
    line: Line
    path: str = "/chat/completions"


class OpenAICompatibleInference:
    """The models behind one address, over pooled connections."""

    def __init__(
        self,
        base_url: str,
        access: ModelAccess | str | None = None,
        timeout_s: float = SILENCE_TIMEOUT_S,
        grammar_server: GrammarServer | None = None,
    ) -> None:
        """Create the client without connecting.

        Args:
            base_url: the address up to, and without, `/chat/completions`.
            access: the credentials; a plain text is the key.
            timeout_s: the longest pause before and within an answer.
            grammar_server: the kind of server, if it supports grammars.

        Raises:
            ValueError: the key is not valid in a header.
        """
        url = parse_url(base_url.strip().rstrip("/"))
        self._base_path = url.request_uri.rstrip("/")
        self._base_url = f"{url.scheme}://{url.netloc}{self._base_path}"
        self._shown_url = url._replace(auth=None, query=None, fragment=None).url
        self._host, self._port = url.host or "", url.port
        self._access = access if isinstance(access, ModelAccess) else ModelAccess(access)
        self._grammar_server = grammar_server
        self._timeout_s = timeout_s
        self._exchanges = Exchanges(url, POOL_SIZE, CONNECT_TIMEOUT_S)
        self._chat_only: set[str] = set()

    def stream(self, request: InferenceRequest) -> Iterator[Streamed]:
        """Yield the answer as it arrives. Closing the generator early drops the connection, and with it the answer.

        A prompt goes to the server's completions. If the server lacks them, or lacks them for this model, the prompt is
        sent as a chat message, and the model is remembered as chat-only.

        Retries at most twice, and only before an answer has begun: when the server is unreachable, closes the
        connection without a response, or answers 429, 502, 503 or 504.

        Raises:
            ModelFailed: the server is unreachable, refuses, aborts or violates the protocol.
            ModelTimedOut: the server sent nothing within the timeout.
        """
        line = Line()
        with (
            (request.stop or StopSignal()).heeded_by(line.cut),
            self._failures_logged(line, request.about),
        ):
            if request.prompt is None:
                yield from self._chatted(request, line)
            else:
                yield from self._continued(request, line)

    def _continued(self, request: InferenceRequest, line: Line) -> Iterator[Streamed]:
        if request.model not in self._chat_only and not self._access.is_signed:  # Bedrock has no completions
            ongoing = replace(self._ongoing(request, line), path=COMPLETIONS)
            try:
                yield from self._streamed(completion_body(request), ContinuationReader(quote=ongoing.quote), ongoing)
            except NoCompletions as missing:
                log.info("%s; falling back to chat completions", missing)
            else:
                return
        refuse_in_chat(request)
        for item in self._chatted(request, line):
            self._note_chat_only(request.model)
            yield item

    def _note_chat_only(self, model: str) -> None:
        if len(self._chat_only) >= MOST_CHAT_ONLY:
            self._chat_only.clear()
        self._chat_only.add(model)

    def _chatted(self, request: InferenceRequest, line: Line) -> Iterator[Streamed]:
        ongoing = self._ongoing(request, line)
        logprobs = _new_logprobs() if request.extras.get("logprobs") else None
        answer = AnswerReader(partial(call_ids_of, request.messages), ongoing.quote, logprobs)
        body = request_body(request, self._grammar_server)
        yield from self._streamed(body, answer, ongoing, logprobs, in_batches=request.takes_batches)

    def _ongoing(self, request: InferenceRequest, line: Line) -> ModelCall:
        key = self._access.key(request.provider_data)
        return ModelCall(request.model, key, self._quote(key, request.messages), line)

    def _streamed(
        self,
        body: Mapping[str, Any],
        answer: AnswerReader,
        ongoing: ModelCall,
        logprobs: "Logprobs | None" = None,
        *,
        in_batches: bool = False,
    ) -> Iterator[Streamed]:
        response = self._opened(written(body), ongoing)
        try:
            for events in self._events(response):
                yield from (
                    _texts(events, answer) if in_batches and logprobs is None else _chunks(events, answer, logprobs)
                )
                if answer.is_over:
                    break
            inferred = answer.inferred()
            yield from answer.calls.take_pending()
            yield inferred
        finally:
            response.settle(is_over=answer.is_over)

    def posted(self, path: str, body: Mapping[str, Any], request: InferenceRequest) -> bytes:
        """Return the whole answer to a body other than a chat, for the request's caller. Raises ModelError."""
        line = Line()
        with (
            (request.stop or StopSignal()).heeded_by(line.cut),
            self._failures_logged(line, request.about),
        ):
            ongoing = replace(self._ongoing(request, line), path=path)
            response = self._opened(written(body), ongoing)
            try:
                return b"".join(_within_limits(response.pieces()))
            finally:
                response.settle(is_over=True)

    def models(self) -> tuple[str, ...]:
        """Return the ids that the server lists. Raises ModelError."""
        key = self._access.key(NO_PROVIDER_DATA)
        ongoing = ModelCall(None, key, self._quote(key), Line(), "/models")
        with self._failures_logged(ongoing.line):
            answer = self._attempt(None, ongoing)
            if isinstance(answer, FailedAttempt):
                raise answer.error from answer.cause
            try:
                if answer.status != 200:
                    raise self._refused(answer, ongoing).error
                listed = json.loads(b"".join(_within_limits(answer.pieces())))
                return tuple(str(model["id"]) for model in listed["data"])
            except (ValueError, RecursionError, KeyError, TypeError) as exc:
                raise ModelFailed("the model server does not list models as an OpenAI-compatible API") from exc
            finally:
                answer.settle(is_over=False)

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:  # noqa: ARG002 - all are one
        """Return `grammar` if the operator configured a grammar server; this needs no request."""
        return frozenset(("grammar",) if self._grammar_server else ())

    def _quote(self, key: str, messages: Sequence[Message] = ()) -> Quote:
        """Return the function that makes the server's text safe to show."""
        redacted = partial(without_address, host=self._host, port=self._port)
        return partial(quoted, messages=messages, secrets=(key,), redacted=redacted)

    @contextmanager
    def _failures_logged(self, line: Line, about: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
        """Within the block, log failures, and note in the error the server's address, which no caller sees."""
        try:
            yield
        except ModelError as error:
            error.server = self._shown_url
            if not line.is_cut:
                log.info(
                    "the model server at %s failed: %s", self._shown_url, error.reason, extra={"fields": dict(about)}
                )
            raise

    def _opened(self, body: bytes, ongoing: ModelCall) -> Response:
        """Return a response of status 200 with an unread body. Raises ModelError."""
        attempts_left = RETRIES
        backoff_s = FIRST_BACKOFF_S
        while True:
            answer = self._attempt(body, ongoing)
            if not isinstance(answer, FailedAttempt):
                if answer.status == 200:
                    return answer
                answer = self._refused(answer, ongoing)
            if answer.wait_s is None or not attempts_left:
                raise answer.error from answer.cause
            if ongoing.line.wait_for_cut(max(answer.wait_s, jittered(backoff_s))):
                raise answer.error from answer.cause
            attempts_left -= 1
            backoff_s *= 2

    def _attempt(self, body: bytes | None, ongoing: ModelCall) -> Response | FailedAttempt:
        """Return the response, of any status, or the failed attempt."""
        method = "GET" if body is None else "POST"
        headers = self._access.headers(ongoing.key, method, self._base_url + ongoing.path, body)
        timeout_s = MODELS_TIMEOUT_S if body is None else self._timeout_s
        path = self._base_path + ongoing.path
        try:
            return self._exchanges.begin(method, path, body, headers, ongoing.line, timeout_s)
        except TimeoutError as exc:
            return FailedAttempt(ModelTimedOut("the model server did not answer in time"), None, exc)
        except NewConnectionError as exc:
            where = f"is it running, and is {self._access.names.url} its address?"
            error_text = f"can't connect to the model server; {where}"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), 0.0, exc)
        except ConnectTimeoutError as exc:
            error = ModelTimedOut(f"no connection to the model server in {CONNECT_TIMEOUT_S:g} s")
            return FailedAttempt(error, None, exc)
        except ExchangeFailed as exc:
            error_text = "the model server hung up before it answered"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), 0.0 if exc.was_silent else None, exc)
        except HTTPError as exc:
            error_text = f"can't talk to the model server ({type(exc).__name__})"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), None, exc)

    def _refused(self, response: Response, ongoing: ModelCall) -> FailedAttempt:
        """Return the failed attempt for a status other than 200."""
        status = response.status
        if ongoing.path == COMPLETIONS and status in MISSING_STATUSES:
            response.settle(is_over=False)
            return FailedAttempt(
                NoCompletions(f"the model server has no completions with {ongoing.model!r} (HTTP {status})")
            )
        wait_s, text = wait_before_retry(response), error_text_of(response)
        server_text = ongoing.quote(text)
        is_our_key = ongoing.key == self._access.key(NO_PROVIDER_DATA)
        is_outage = status >= 500 or (status == 429 and is_our_key)  # a limit of the caller's own key is no outage
        named = SettingNames(self._access.names.url, self._access.key_name(ongoing.key))
        message = f"{_meaning_of(status, ongoing.model, named)} (HTTP {status})"
        if status == 429:
            retry_s = retry_after_s(response)
            whole_s = None if retry_s is None else min(ceil(retry_s), LONGEST_RETRY_AFTER_S)
            busy = ModelBusy(message, retry_after_s=whole_s, is_outage=is_outage, quote=server_text, status=status)
            return FailedAttempt(busy, wait_s)
        if status == 404 and ongoing.model is not None and ongoing.model in text:  # else its address may be wrong
            return FailedAttempt(ModelNotFound(message, quote=server_text, status=status))
        is_invalid = ongoing.model is not None and status in (400, 413, 422)  # a list of models is our own request
        kind = ModelRefused if is_invalid else ModelFailed
        return FailedAttempt(kind(message, is_outage=is_outage, quote=server_text, status=status), wait_s)

    def _events(self, response: Response) -> Iterator[Sequence[str]]:
        """Yield the data of the events of each read, or the JSON text of a server without streaming.

        Raises ModelError.
        """
        content_type = response.headers.get("content-type", "").lower()
        if content_type.startswith("application/json"):
            yield (b"".join(_within_limits(response.pieces())).decode("utf-8", "replace"),)
            raise ModelFailed("the model server answered with JSON that is not a chat completion")
        reader = SseReader()
        has_events = False
        try:
            for chunk in _within_limits(response.pieces()):
                if events := reader.feed(chunk):
                    has_events = True
                    yield [data for event in events if (data := event.strip())]
        except EventTooLarge as exc:
            raise ModelFailed(f"the model server sent {exc}") from exc
        if not has_events and "event-stream" not in content_type:
            error_text = "the model server does not answer as an OpenAI-compatible API; check"
            raise ModelFailed(f"{error_text} {self._access.names.url}")


def _chunks(events: Iterable[str], answer: AnswerReader, logprobs: "Logprobs | None") -> Iterator[Chunk]:
    """Yield the chunks of these events, up to the end of the answer. Raises ModelFailed."""
    for data in events:
        text = answer.read(data)
        rated = () if logprobs is None else logprobs.take()
        if answer.reasoned:
            yield ReasoningChunk(answer.reasoned)
        if text or rated:
            yield TextChunk(text, rated)
        if answer.calls.pending:
            yield from answer.calls.take_pending()
        if answer.is_over:
            return


def _texts(events: Sequence[str], answer: AnswerReader) -> Iterator[TextChunks]:
    """Yield the texts of these events in batches, up to the end of the answer; raise ModelFailed after the others."""
    for first in range(0, len(events), TEXTS_AT_ONCE):
        texts: list[str] = []
        failed: ModelFailed | None = None
        try:
            answer.read_texts(events[first : first + TEXTS_AT_ONCE], texts)
        except ModelFailed as error:
            failed = error
        if texts:
            yield TextChunks(tuple(texts))
        if failed is not None:
            raise failed
        if answer.is_over:
            return


def _within_limits(received: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a body as they arrive. Raises ModelError."""
    left_bytes = MAX_ANSWER_BYTES
    try:
        for chunk in received:
            left_bytes -= len(chunk)
            if left_bytes < 0:
                raise ModelFailed("the model server answers without end")
            yield chunk
    except TimeoutError as exc:
        raise ModelTimedOut("the model server fell silent while it answered") from exc
    except ExchangeFailed as exc:
        raise ModelFailed("the answer of the model server broke off", is_outage=True) from exc


def _new_logprobs() -> "Logprobs":
    from turnstone.adapters.models.openai.openai_logprobs import Logprobs  # rarely requested

    return Logprobs()


def _meaning_of(status: int, model: str | None, named: SettingNames) -> str:
    if 300 <= status < 400:
        return f"the model server redirects; set {named.url} to the final URL"
    if status in (401, 403):
        return f"the model server does not accept the key; check {named.key}"
    if status == 404:
        target = "the list of models" if model is None else f"model {model!r}"
        return f"{target} not found by the model server; check the agent's model and {named.url}"
    if status == 429:
        return "the model server takes no more requests now; try again later"
    return "the model server refused or failed"
