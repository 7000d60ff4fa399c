"""The declaration of a route, the request that its function takes, and the answers that it may return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors.validation_messages import problems_of
from turnstone.domain.provider_data import ProviderData, provider_data_in
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.frozen import infinity_path
from turnstone.http.envelopes import DETAIL, ErrorEnvelope

if TYPE_CHECKING:  # a function loads what its own routes need
    from turnstone.domain.errors.codes import ErrorCode
    from turnstone.domain.models.requests import TokenLikelihood
    from turnstone.domain.turns.events import TurnEvent
    from turnstone.domain.turns.turns import Turn
    from turnstone.domain.values.cancellation import StopSignal
    from turnstone.domain.values.content import Restore
    from turnstone.services.models.answer_stream import AnswerStream
    from turnstone.services.streams.broadcast import TurnBroadcast
    from turnstone.services.use_cases import UseCases


class Request(NamedTuple):
    """A request with its whole body. Header names are in lower case, query values in the order sent.

    Attributes:
        scheme: how the caller authenticated, `bearer` or `sigv4`; None on a server without authentication.
        base: prefix of the API's paths in the request's own: a stage, or a domain's base path.
        about: fields of the log besides route and caller: ids, added as they are found.
        stop: set when the client leaves, for a route that `is_cancellable`; None for all others.
    """

    method: str
    path: str
    path_params: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    caller: Caller
    scheme: str | None
    use_cases: UseCases
    base: str
    about: dict[str, Any]
    stop: StopSignal | None = None

    @property
    def session_ref(self) -> SessionRef:
        params = self.path_params
        return SessionRef(tenant=self.caller.tenant, agent_id=params["agent_id"], session_id=params["session_id"])

    @property
    def turn_ref(self) -> TurnRef:
        params = self.path_params
        return TurnRef(
            tenant=self.caller.tenant,
            agent_id=params["agent_id"],
            session_id=params["session_id"],
            turn_id=params["turn_id"],
        )

    @property
    def attempt(self) -> Attempt:
        """The marks by which a retry of this request is recognised.

        Source: the official clients count their retries in `x-stainless-retry-count`, send their timeout in
        `x-stainless-read-timeout`, and wait eight seconds at most before a retry.
        """
        retries = _number(self.headers.get("x-stainless-retry-count"), 0)
        timeout_s = _number(self.headers.get("x-stainless-read-timeout"), CLIENT_TIMEOUT_S)
        key = self.headers.get("idempotency-key")
        return Attempt(
            fingerprint=self._digest(self.body),
            is_retry=retries > 0,
            key=self._digest(key.encode()) if key else None,
            repeated_within_s=min(retries * (timeout_s + LONGEST_BACKOFF_S) + SLACK_S, LONGEST_REPEATED_S),
            provider_data=self.provider_data,
        )

    @property
    def provider_data(self) -> ProviderData:
        """Return the caller's keys for providers. Raises InvalidRequest."""
        return provider_data_in(self.headers)

    def _digest(self, part: bytes) -> str:
        digest = blake2b(digest_size=16)
        for piece in (self.caller.principal.encode(), self.method.encode(), self.path.encode("utf-8", "replace"), part):
            digest.update(len(piece).to_bytes(8))
            digest.update(piece)
        return digest.hexdigest()


def wire_json(value: BaseModel) -> bytes:
    """Return the value as its own JSON."""
    return value.model_dump_json().encode()


class Reply(NamedTuple):
    """A whole answer, of JSON unless `content_type` differs.

    Attributes:
        about: fields of the log: ids of created objects, or the error.
        pieces: parts of a large body, made while they are sent; `body` is then empty.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    content_type: str = "application/json"
    about: Mapping[str, Any] = MappingProxyType({})
    pieces: Iterator[bytes] | None = None


class FileReply(Reply):
    """The bytes of a file, possibly more than a Lambda's buffered answer holds."""

    __slots__ = ()


class PiecesReply(NamedTuple):
    """An answer of JSON, made while it is sent."""

    pieces: Iterator[bytes]


class TurnReply(NamedTuple):
    """The turn, once it has ended or waits for its client, written with its dialect's `encode`."""

    broadcast: TurnBroadcast
    encode: Callable[[Turn], bytes] = wire_json


class TurnStreamReply(NamedTuple):
    """The turn's events as they happen, as server-sent events.

    Attributes:
        has_ids: whether events carry their numbers; such a stream has one client.
    """

    broadcast: TurnBroadcast
    encode: Callable[[TurnEvent], bytes]
    has_ids: bool = False


class AnswerEncoder(Protocol):
    """A dialect's encoding of a model's answer: whole, or as the data of server-sent events.

    A chat's answer is an Inferred, streamed after its texts. Continuations of texts are Continuations, streamed after
    their texts and the Continued of each.
    """

    def whole(self, answer: Any, /) -> bytes: ...

    def begun(self) -> bytes: ...

    def encoded(self, part: Any, logprobs: tuple[TokenLikelihood, ...] = (), /) -> bytes: ...

    def ended(self, answer: Any, /) -> bytes: ...

    def failed(self, message: str, code: ErrorCode) -> bytes: ...


class ModelReply(NamedTuple):
    """A model's answer, sent once it is complete; cancelled when the client leaves."""

    answering: AnswerStream
    encoder: AnswerEncoder


class ModelStreamReply(NamedTuple):
    """A model's answer as server-sent events, sent as they arrive; cancelled when the client leaves."""

    answering: AnswerStream
    encoder: AnswerEncoder


Answer = Reply | FileReply | PiecesReply | TurnReply | TurnStreamReply | ModelReply | ModelStreamReply


class NoContent:
    """An answer without a body: the status alone."""


class Null:
    """The JSON answer `null`."""


class FileBytes:
    """The bytes of a file of any type."""


class Route(NamedTuple):
    """A route as declared by its module in `functions/`.

    Attributes:
        path: with the version prefix and `{parameters}`.
        body: model of the request body, None if there is none.
        reply: model of the whole answer, or of a stream's result; None for an answer that is not JSON of ours, which
            the API's document leaves out.
        query: description of each query parameter, by name. A parameter with a text alone takes any text and may be
            repeated; a mapping also has the `schema` of a single value.
        headers: type of the value of each response header of the route, by name in lower case.
        raises: errors that do not follow from the path, the body or the kind of answer.
        takes_slashes: the path ends in a parameter whose values may hold slashes.
        envelope: JSON shape of its errors.
        chunk: model of the data of one event, for streams of a model's answer and a dialect's own streams of turns.
        stores: a POST stores something, so an Idempotency-Key makes it safe to repeat.
        is_open: requires no authentication and ignores credentials; its caller is `NOBODY`.
        is_brief: reads one record at most and runs in the event loop: waking a thread takes longer.
        is_cancellable: heeds its request's `stop`: the result is of no use once the client has left.
        is_rare: seldom requested: found in a table after the patterns of all other routes.
        dialect: prefix of its operation id; empty for the dialects that share the unprefixed names.
    """

    method: str
    path: str
    endpoint: Callable[[Request], Answer]
    reply: type[BaseModel | NoContent | Null | FileBytes] | None
    body: type[BaseModel] | None = None
    query: Mapping[str, str | Mapping[str, Any]] = MappingProxyType({})
    headers: Mapping[str, Any] = MappingProxyType({})
    raises: tuple[type[Exception], ...] = ()
    takes_slashes: bool = False
    is_brief: bool = False
    is_cancellable: bool = False
    is_open: bool = False
    envelope: ErrorEnvelope = DETAIL
    chunk: type[BaseModel] | None = None
    stores: bool = True
    is_rare: bool = False
    dialect: str = ""

    @property
    def operation_id(self) -> str:
        """Its id in the API's document: the name of its function, prefixed with the dialect if there is one."""
        return f"{self.dialect}_{self.endpoint.__name__}".removeprefix("_")

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path of the route, its own before its alias."""
        alias = next((self.path.replace(own, other, 1) for own, other in ALIASES.items() if self._is_under(own)), None)
        return (self.path,) if alias is None else (self.path, alias)

    def _is_under(self, prefix: str) -> bool:
        return self.path == prefix or self.path.startswith(prefix + "/")


# Source: `llama-stack-client` 0.3 requests the first four under another version, 0.0.53 to 0.0.63 the next two
# under alpha; the last two are the usual paths of a document and its page
ALIASES = {
    "/v1/agents": "/v1alpha/agents",
    "/v1/openai/v1/chat": "/v1/chat",
    "/v1/openai/v1/completions": "/v1/completions",
    "/v1/openai/v1/embeddings": "/v1/embeddings",
    "/agents": "/alpha/agents",
    "/v1/health": "/alpha/health",
    "/v1/openapi.json": "/openapi.json",
    "/v1/docs": "/docs",
}
Parsed = TypeVar("Parsed", bound=BaseModel)
AnyReply = TypeVar("AnyReply", bound=Reply)
# fields of bodies, answers and queries whose values are ids; every parameter of a path is one
NAMING = frozenset(
    {"agent_id", "session_id", "turn_id", "step_id", "toolgroup_id", "tool_group_id", "tool_name", "shield_id"}
    | {"model", "model_id", "provider_id", "completion_id"}
)
CLIENT_TIMEOUT_S = 60.0
LONGEST_BACKOFF_S = 8.0
SLACK_S = 15.0
LONGEST_REPEATED_S = 3_600.0


def _number(text: str | None, otherwise: float) -> float:
    """Return the number in a client's header, or the default if the header holds no plain number."""
    is_plain = text is not None and len(text) <= 9 and text.isascii() and text.replace(".", "", 1).isdigit()
    return float(text) if text is not None and is_plain else otherwise


class InvalidBody(Exception):
    """The request's body does not match its model."""

    def __init__(self, problems: list[dict[str, object]]) -> None:
        super().__init__("invalid body")
        self.problems = problems


def parse(request: Request, model: type[Parsed]) -> Parsed:
    """Return the body as the model. Raises InvalidBody."""
    body = checked(json_of(request.body), model)
    request.about.update(ids_in(body.__dict__))
    return body


def ids_in(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields whose values are ids, which may be logged."""
    return {name: value for name, value in fields.items() if name in NAMING and isinstance(value, str)}


def json_of(body: bytes) -> object:
    """Return the value of the JSON text. Raises InvalidBody, also for NaN, infinity and lone surrogates."""
    try:
        value: object = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidBody([{"loc": (), "msg": f"Invalid JSON: {error}", "type": "json_invalid"}]) from error
    if (location := infinity_path(value)) is not None:
        raise InvalidBody([{"loc": location, "msg": "Input should be a finite number", "type": "finite_number"}])
    return value


def checked(value: object, model: type[Parsed]) -> Parsed:
    """Return the value as the model. Raises InvalidBody."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidBody(problems_of(error, value)) from error


def reply(value: BaseModel, **headers: str) -> Reply:
    """Return the value as the whole answer, nulls included. Underscores in the names of headers become dashes."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(wire_json(value), headers=named, about=ids_in(value.__dict__))


def restored(reply: AnyReply, restore: Restore | None) -> AnyReply:
    """Return the reply, its long texts read from the store while it is sent; unchanged without `restore`."""
    return reply if restore is None else reply._replace(body=b"", pieces=restore((reply.body,)))


def json_reply(wire: bytes | Iterable[bytes]) -> FileReply:
    """Return JSON as a whole answer of any length."""
    return FileReply(wire) if isinstance(wire, bytes) else FileReply(b"", pieces=iter(wire))


def done() -> Reply:
    """Return the answer of a route with the reply NoContent."""
    return Reply(b"", 204)


def null() -> Reply:
    """Return the answer of a route with the reply Null."""
    return Reply(b"null")


def joined(head: bytes, values: Iterator[bytes | Iterable[bytes]], tail: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield a JSON text around a list of values, each one JSON or pieces of JSON.

    The tail is made after the last value.
    """
    yield head
    comma = b""
    for value in values:
        if isinstance(value, bytes):
            yield comma + value
        else:
            yield comma
            yield from value
        comma = b","
    yield tail()
