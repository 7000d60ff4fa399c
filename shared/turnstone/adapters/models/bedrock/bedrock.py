"""Models of Amazon Bedrock, through Converse and ConverseStream."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from turnstone.adapters.aws.bedrock_errors import FAILURES, BedrockCall, broken_off, refusal_of
from turnstone.adapters.models.bedrock.bedrock_answer import ConverseAnswer, Event, events_of
from turnstone.adapters.models.bedrock.bedrock_wire import BedrockOptions, ConverseRequest, converse_request
from turnstone.adapters.models.openai.model_responses import jittered
from turnstone.adapters.models.openai.openai_answer import call_ids_of
from turnstone.adapters.outgoing.connections import Line, cuttable_by
from turnstone.adapters.outgoing.failed_attempt import FailedAttempt
from turnstone.adapters.outgoing.quoting import quoted
from turnstone.domain.models.requests import Chunk, InferenceRequest, Inferred, ReasoningChunk, TextChunk
from turnstone.domain.models.routing import Target
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.models import Capability

RETRIES = 2
FIRST_BACKOFF_S = 0.2
# Longest wait for the end of a response after the end of its answer, to keep the connection.
SETTLE_S = 0.1
SETTLE_EVENTS = 4


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer that has begun: its events, and its stream, if any."""

    events: Iterator[Event]
    stream: Any = None


class BedrockInference:
    """The models of one region, over pooled connections."""

    def __init__(self, client: Any, options: BedrockOptions | None = None) -> None:
        """Take a client from `build_bedrock_client`, without retries and with connections that can be cut."""
        self._client = client
        self._options = options or BedrockOptions()

    def stream(self, request: InferenceRequest) -> Iterator[Chunk | Inferred]:
        """Yield the answer as it arrives. Closing the generator early drops the connection, and with it the answer.

        Retries at most twice, and only before an answer has begun: when Bedrock is unreachable, closes the connection
        without a response, throttles or fails internally.

        Raises:
            InvalidRequest: Converse does not support a field of the request.
            ModelFailed: Bedrock is unreachable, refuses, aborts or withholds the answer.
            ModelTimedOut: Bedrock sent nothing within the timeout.
        """
        line = Line()
        with (request.stop or StopSignal()).heeded_by(line.cut), cuttable_by(line):
            yield from self._answered(request, line)

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:  # noqa: ARG002 - all are one
        """Return the models' capabilities: no grammars."""
        return frozenset()

    def models(self) -> tuple[str, ...]:
        """Return the model ids configured by the operator."""
        return self._options.models

    def _answered(self, request: InferenceRequest, line: Line) -> Iterator[Chunk | Inferred]:
        question = converse_request(request, self._options)
        call = BedrockCall(request.model, self._client.meta.region_name, partial(quoted, messages=request.messages))
        answer = ConverseAnswer(question.tool_names, partial(call_ids_of, request.messages), question.may_call)
        begun = self._begun(question, call, line)
        try:
            for event in _whole(begun.events, call):
                text = answer.read(event)
                if answer.reasoned:
                    yield ReasoningChunk(answer.reasoned)
                if text:
                    yield TextChunk(text)
                if answer.calls.pending:
                    yield from answer.calls.take_pending()
                if answer.is_over:
                    break
            inferred = answer.inferred()
            yield from answer.calls.take_pending()
            yield inferred
        finally:
            if begun.stream is not None:
                _settle(begun, line, may_be_kept=answer.is_over)

    def _begun(self, question: ConverseRequest, call: BedrockCall, line: Line) -> Begun:
        """Return an answer that has begun. Raises ModelError."""
        attempts_left = RETRIES
        backoff_s = FIRST_BACKOFF_S
        while True:
            begun = self._attempt(question, call)
            if isinstance(begun, Begun):
                return begun
            if begun.wait_s is None or not attempts_left:
                raise begun.error from begun.cause
            if line.wait_for_cut(max(begun.wait_s, jittered(backoff_s))):
                raise begun.error from begun.cause
            attempts_left -= 1
            backoff_s *= 2

    def _attempt(self, question: ConverseRequest, call: BedrockCall) -> Begun | FailedAttempt:
        """Return the answer once its first content has arrived, or the refusal."""
        stream: Any = None
        try:
            if not self._options.is_streaming:
                return Begun(events_of(self._client.converse(**question.arguments)))
            stream = self._client.converse_stream(**question.arguments)["stream"]
            events = iter(stream)
            received: list[Event] = []
            for event in events:
                received.append(event)
                if "messageStart" not in event:
                    break
        except FAILURES as failure:
            if stream is not None:
                stream.close()
            return refusal_of(failure, call)
        return Begun(chain(received, events), stream)


def _whole(events: Iterator[Event], call: BedrockCall) -> Iterator[Event]:
    """Yield the events. Raises ModelError if the stream aborts."""
    try:
        yield from events
    except FAILURES as failure:
        broken = broken_off(failure, call)
    else:
        return
    raise broken.error from broken.cause


def _settle(begun: Begun, line: Line, *, may_be_kept: bool) -> None:
    """Return the connection to the pool if the response ends now, else drop it."""
    if may_be_kept:
        line.hurry(SETTLE_S)
        with suppress(*FAILURES, OSError):
            for _, _ in zip(range(SETTLE_EVENTS), begun.events, strict=False):
                pass
    begun.stream.close()
