"""Client of a JSON web service that requires a key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from turnstone.adapters.fetching.messages import FetchRequest
from turnstone.adapters.outgoing.quoting import quoted
from turnstone.domain.errors import StoreUnavailable, ToolFailed
from turnstone.domain.provider_data import is_sendable

if TYPE_CHECKING:
    from turnstone.adapters.fetching.messages import Fetched
    from turnstone.domain.tools.tool_runs import ToolInvocation

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_QUERY_CHARACTERS = 4_000
MAX_FIELD_CHARACTERS = 4_000
MAX_FIELD_ENTRIES = 20
Keys = Callable[[str], str | None]
Json = Mapping[str, Any]


class Fetcher(Protocol):
    """Fetches from outside addresses, and refuses forbidden ones."""

    def fetch(self, request: FetchRequest) -> Fetched:
        """Return the response, of any status. Raises ToolFailed."""


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request to a service: a GET, or a POST if there is a body."""

    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    posted: Json | None = None


class Service:
    """One service, called through the guarded fetcher."""

    def __init__(self, title: str, url: str, fetcher: Fetcher) -> None:
        self._title = title
        self._url = url
        self._fetcher = fetcher

    def query_service(self, question: ServiceRequest, key: str, invocation: ToolInvocation) -> Json:
        """Return the service's JSON object. Raises ToolFailed, which repeats neither the key nor the query."""
        body = None if question.posted is None else json.dumps(question.posted).encode()
        sent_as = {} if body is None else {"Content-Type": "application/json"}
        fetched = self._fetcher.fetch(
            FetchRequest(
                method="GET" if body is None else "POST",
                url=self._url,
                headers={"Accept": "application/json", **sent_as, **question.headers},
                params=question.params,
                body=body,
                timeout_s=invocation.timeout_s,
                max_bytes=MAX_ANSWER_BYTES,
                max_redirects=0,  # a key goes to its own service only
                stop=invocation.stop,
            )
        )
        try:
            answer = json.loads(fetched.body)
        except (ValueError, RecursionError):
            answer = None
        if fetched.status != 200:
            message = quoted(_error_in(answer), (), (key,))
            raise ToolFailed(f"{self._title} {_meaning(fetched.status)}" + (f": {message}" if message else ""))
        if not isinstance(answer, dict):
            raise ToolFailed(f"{self._title} answered with something other than a JSON object")
        return answer


class ServerKey:
    """The server's own key of a service, read on first use."""

    def __init__(self, name: str | None, keys: Keys) -> None:
        """Take the name of the variable or secret with the key, if any, and the function that reads it."""
        self._name = name
        self._keys = keys
        self._key: str | None = None

    def text(self) -> str | None:
        """Return the key, None without one. Raises ToolFailed if it cannot be read."""
        if self._key is None and self._name is not None:
            try:
                self._key = self._keys(self._name)
            except StoreUnavailable as failure:
                raise ToolFailed("the server's key for this tool can't be read now") from failure
        return self._key


def caller_key(invocation: ToolInvocation, name: str) -> str | None:
    """Return the key of the call: the caller's, else the one in the tool's definition.

    Raises:
        ToolFailed: the key is not valid in a header.
    """
    key = (invocation.asker.provider_data.key(name) or invocation.options.api_key or "").strip()
    if not is_sendable(key):
        raise ToolFailed(f"the key {name!r} has characters that are not valid in an HTTP header")
    return key or None


def without_key(tool: str, name: str, table: str) -> ToolFailed:
    """Return the failure of a tool without a key, which names the ways to set one."""
    return ToolFailed(
        f"{tool} requires a key: send {name!r} in the header X-LlamaStack-Provider-Data, give the tool of the "
        f"agent an api_key, or have the server's operator name one in [{table}] of the file (api_key_env, on AWS "
        "api_key_secret)"
    )


def query_of(invocation: ToolInvocation) -> str:
    """Return the query. Raises ToolFailed."""
    query = invocation.arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ToolFailed(f"{invocation.call.tool_name} needs the argument 'query', a text that is not empty")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise ToolFailed(f"the query is too long: it may have {MAX_QUERY_CHARACTERS} characters")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the query has characters that can't be sent") from None
    return query.strip()


def picked(entry: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the object's fields of these names that have a value, in the order of the names.

    Cuts long values: a page controls the text that a search engine returns to a model.
    """
    fields = entry if isinstance(entry, dict) else {}
    return {name: _shortened(fields[name]) for name in names if fields.get(name) not in (None, "", [])}


def as_text(json_value: Json) -> str:
    """Return JSON as a storable text: a lone surrogate, which JSON can express, becomes a mark."""
    return json.dumps(json_value, ensure_ascii=False).encode("utf-8", "replace").decode()


def entries_in(answer: Json, *path: str) -> list[Any]:
    """Return the list at the end of a path of names, empty if missing."""
    at: Any = answer
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    return at if isinstance(at, list) else []


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_FIELD_CHARACTERS else value[:MAX_FIELD_CHARACTERS] + "…"
    if isinstance(value, list):
        return [_shortened(each) for each in value[:MAX_FIELD_ENTRIES]]
    if isinstance(value, dict):
        return {name: _shortened(value[name]) for name in list(value)[:MAX_FIELD_ENTRIES]}
    return value


def _meaning(status: int) -> str:
    if status in (401, 403):
        return f"does not accept the key (HTTP {status})"
    if status == 429:
        return f"takes no more requests now (HTTP {status})"
    return f"refused or failed (HTTP {status})"


def _error_in(answer: Any) -> str:
    """Return the first error text of a service's response, empty without one."""
    return next(_sentences(answer, 4), "")


def _sentences(json_value: Any, levels: int) -> Iterator[str]:
    if isinstance(json_value, str):
        yield json_value
    elif isinstance(json_value, list) and levels:
        for entry in json_value:
            yield from _sentences(entry, levels - 1)
    elif isinstance(json_value, dict) and levels:
        for name in ("error", "errors", "detail", "message", "msg", "queryresult"):
            yield from _sentences(json_value.get(name), levels - 1)
