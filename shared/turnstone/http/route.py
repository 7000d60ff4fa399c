"""The declaration of a route, by its module in `functions/`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel

from turnstone.http.envelopes import DETAIL, ErrorEnvelope
from turnstone.http.replies import Answer
from turnstone.http.request import Request

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
        return paths_of(self.path)


def paths_of(path: str) -> tuple[str, ...]:
    """Return every path of a route that declares this one, its own before its alias."""
    alias = next((path.replace(own, other, 1) for own, other in ALIASES.items() if _is_under(path, own)), None)
    return (path,) if alias is None else (path, alias)


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + "/")
