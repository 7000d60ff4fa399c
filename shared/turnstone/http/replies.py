"""The answers that a route's function may return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from turnstone.http.dialects import LLAMA_STACK, Dialect
from turnstone.http.request import ids_in

if TYPE_CHECKING:  # a function loads what its own routes need
    from pydantic import BaseModel

    from turnstone.domain.turns.turns import TurnState
    from turnstone.domain.values.content import Restore
    from turnstone.http.answer_encoder import AnswerEncoder
    from turnstone.http.turn_encoder import TurnEncoder
    from turnstone.services.models.answer_stream import AnswerStream
    from turnstone.services.streams.broadcast import TurnBroadcast


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


def turn_json(state: TurnState) -> bytes:
    """Return the turn of the state as its own JSON."""
    return wire_json(state.turn)


class TurnReply(NamedTuple):
    """The turn, once it has ended or waits for its client, written from its state with its dialect's `encode`.

    Attributes:
        shows_failures: whether `encode` also writes a turn that ended without an answer; else that is an error.
        dialect: of the errors.
    """

    broadcast: TurnBroadcast
    encode: Callable[[TurnState], bytes] = turn_json
    shows_failures: bool = False
    dialect: Dialect = LLAMA_STACK


class TurnStreamReply(NamedTuple):
    """The turn's events as they happen, as server-sent events.

    Attributes:
        encoder: of this stream alone.
        is_cursor: the broadcast is an event cursor's, of this client alone: when the process ends, it is closed,
            where a run is handed off.
    """

    broadcast: TurnBroadcast
    encoder: TurnEncoder
    is_cursor: bool = False


class ModelReply(NamedTuple):
    """A model's answer, sent once it is complete; cancelled when the client disconnects."""

    answering: AnswerStream
    encoder: AnswerEncoder


class ModelStreamReply(ModelReply):
    """A model's answer as server-sent events, sent as they arrive; cancelled when the client disconnects."""

    __slots__ = ()


Answer = Reply | FileReply | PiecesReply | TurnReply | TurnStreamReply | ModelReply | ModelStreamReply

AnyReply = TypeVar("AnyReply", bound=Reply)


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


def download_headers(filename: str) -> dict[str, str]:
    """Return the headers of a file: a browser must neither run it nor guess its type."""
    return {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(filename, safe='')}",
        "content-security-policy": "sandbox; default-src 'none'",
        "x-content-type-options": "nosniff",
        "cache-control": "private, max-age=0",
    }


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
