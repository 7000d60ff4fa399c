"""The declaration of a route, by its module in `functions/`."""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel

from turnstone.http.dialects import LLAMA_STACK, Dialect
from turnstone.http.replies import Answer
from turnstone.http.request import Request

# Source: `llama-stack-client` 0.3 requests the first four under another version, 0.0.53 to 0.0.63 the next four
# under alpha, and 0.1.0 those of memory under its version; the last two are the usual paths of a document and its page
ALIASES: Mapping[str, tuple[str, ...]] = {
    "/v1/agents": ("/v1alpha/agents",),
    "/v1/openai/v1/chat": ("/v1/chat",),
    "/v1/openai/v1/completions": ("/v1/completions",),
    "/v1/openai/v1/conversations": ("/v1/conversations",),
    "/v1/openai/v1/embeddings": ("/v1/embeddings",),
    "/v1/openai/v1/files": ("/v1/files",),
    "/v1/openai/v1/responses": ("/v1/responses",),
    "/v1/openai/v1/uploads": ("/v1/uploads",),
    "/v1/openai/v1/vector_stores": ("/v1/vector_stores",),
    "/agents": ("/alpha/agents",),
    "/v1/health": ("/alpha/health",),
    "/memory": ("/alpha/memory", "/v1/memory"),
    "/memory-banks": ("/alpha/memory-banks",),
    "/v1/openapi.json": ("/openapi.json",),
    "/v1/docs": ("/docs",),
}
# Source: the resources of `letta-client` 1.12. Other paths below these have another meaning there, or none
_AGENT, _NAMED = "/letta/v1/agents/{agent_id}", "/letta/v1/sources/{source_id}"
RENAMED: Mapping[str, str] = {
    f"{_AGENT}/add-tool/{{tool_id}}": f"{_AGENT}/tools/attach/{{tool_id}}",
    f"{_AGENT}/remove-tool/{{tool_id}}": f"{_AGENT}/tools/detach/{{tool_id}}",
    f"{_AGENT}/memory/block": f"{_AGENT}/core-memory/blocks",
    f"{_AGENT}/memory/block/{{block_label}}": f"{_AGENT}/core-memory/blocks/{{block_label}}",
    f"{_AGENT}/archival": f"{_AGENT}/archival-memory",
    f"{_AGENT}/archival/{{memory_id}}": f"{_AGENT}/archival-memory/{{memory_id}}",
    f"{_AGENT}/sources": f"{_AGENT}/folders",
    "/letta/v1/sources": "/letta/v1/folders",
    _NAMED: "/letta/v1/folders/{source_id}",
    f"{_NAMED}/files": "/letta/v1/folders/{source_id}/files",
    f"{_NAMED}/{{file_id}}": "/letta/v1/folders/{source_id}/{file_id}",
}


class NoContent:
    """An answer without a body: the status alone."""


class Null:
    """The JSON answer `null`."""


class FileBytes:
    """The bytes of a file of any type."""


class FileField(NamedTuple):
    """The field of a form that holds a file.

    Attributes:
        most_bytes: a limit below that of the server, None without one.
    """

    name: str
    most_bytes: int | None = None


class Route(NamedTuple):
    """A route as declared by its module in `functions/`.

    Attributes:
        path: with the version prefix and `{parameters}`.
        body: model of the request body, None if there is none; of a form, of its fields beside the file.
        reply: model of the whole answer, or of a stream's result; None for an answer that is not JSON of ours, which
            the API's document leaves out.
        query: description of each query parameter, by name. A parameter with a text alone takes any text and may be
            repeated; a mapping also has the `schema` of a single value.
        headers: type of the value of each response header of the route, by name in lower case.
        raises: errors that do not follow from the path, the body or the kind of answer.
        takes_slashes: the path ends in a parameter whose values may hold slashes.
        chunk: model of the data of one event, for streams of a model's answer and a dialect's own streams of turns.
        stores: a POST stores something, so an Idempotency-Key makes it safe to repeat.
        is_open: requires no authentication and ignores credentials; its caller is `NOBODY`.
        is_brief: reads one record at most and runs in the event loop: waking a thread takes longer.
        is_cancellable: heeds its request's `stop`: the result is of no use once the client has left.
        is_rare: seldom requested: found in a table after the patterns of all other routes.
        dialect: see `http/dialects.py`.
        file: the field of the file, of a route whose body is a form; None for a body of JSON.
        accepted: model of the answer 202 to a request that prefers `respond-async`; None if none is given.
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
    chunk: type[BaseModel] | None = None
    stores: bool = True
    is_rare: bool = False
    dialect: Dialect = LLAMA_STACK
    accepted: type[BaseModel] | None = None
    file: FileField | None = None

    @property
    def operation_id(self) -> str:
        """Its id in the API's document: the name of its function, prefixed with the dialect if there is one."""
        name = self.endpoint.__name__
        return f"{self.dialect.name}_{name}" if self.dialect.is_in_ids else name

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path of the route in the API's document, its own before its aliases."""
        return paths_of(self.path)

    @property
    def served_paths(self) -> tuple[str, ...]:
        """Every path at which the route answers, without a redirect: in some dialects with a slash at the end, too."""
        return served_paths_of(self.path, has_slashes=self.dialect.slashes and not self.takes_slashes)

    @property
    def family(self) -> str:
        """The package of the route's family: its routes share a budget of threads, and a tag of the document.

        Packages below it, as those of Letta's routes, belong to it.
        """
        parts = self.endpoint.__module__.split(".")[:-1]
        depth = parts.index(self.dialect.name) + 1 if self.dialect.name in parts else len(parts)
        return ".".join(parts[:depth])


@cache
def paths_of(path: str) -> tuple[str, ...]:
    """Return every path of a route that declares this one, its own before its aliases."""
    if path in RENAMED:
        return path, RENAMED[path]
    prefixes = [prefix for prefix in ALIASES if _is_under(path, prefix)]
    return (path, *(other + path.removeprefix(own) for own in prefixes for other in ALIASES[own]))


def served_paths_of(path: str, *, has_slashes: bool) -> tuple[str, ...]:
    """Return every path of a route that declares this one, if required also each with a slash at its end."""
    if not has_slashes:
        return paths_of(path)
    return tuple(each for own in paths_of(path) for each in (own.rstrip("/"), own.rstrip("/") + "/"))


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + "/")
