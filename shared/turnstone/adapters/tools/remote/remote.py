"""Remote tools: calls sent to the address in an agent's own definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from turnstone.adapters.fetching.messages import FetchRequest
from turnstone.adapters.outgoing.quoting import quoted
from turnstone.adapters.tools.remote.remote_answers import result_of, text_in
from turnstone.adapters.tools.remote.url_templates import filled, with_query
from turnstone.domain.errors import ToolFailed
from turnstone.domain.provider_data import is_sendable

if TYPE_CHECKING:
    from turnstone.adapters.tools.web.json_service import Fetcher
    from turnstone.domain.tools.agent_tools import RemoteExecution
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
    from turnstone.domain.tools.tools import ToolDef

MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_KEY_CHARACTERS = 255
SHORTEST_SECRET = 8
WITH_BODY = ("POST", "PUT")
# headers that only the sender may set: framing and routing
OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class RemoteToolbox:
    """Sends a call to its definition's address, through the fetcher that refuses private ones."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return none: agents define them."""
        return ()

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the response. Raises ToolFailed, also for a response of an error status."""
        remote = invocation.options.remote_execution
        if remote is None:
            raise ToolFailed(f"{invocation.call.tool_name!r} is not defined as a tool with remote_execution")
        headers = _headers_of(remote)
        fetched = self._fetcher.fetch(_request(remote, headers, invocation))
        if not 200 <= fetched.status < 300:
            secrets = [value for value in headers.values() if len(value) >= SHORTEST_SECRET]
            message = quoted(text_in(fetched) or "", (), sorted(secrets, key=len, reverse=True))
            raise ToolFailed(f"the tool's server answered HTTP {fetched.status}" + (f": {message}" if message else ""))
        return result_of(fetched, invocation.call.tool_name)


def _request(remote: RemoteExecution, headers: dict[str, str], invocation: ToolInvocation) -> FetchRequest:
    """Return the request. The definition's fixed values override arguments of the same names."""
    target = filled(remote.url, invocation.arguments)
    query = {name: value for name, value in remote.params.items() if name not in target.query_names}
    rest = {name: value for name, value in invocation.arguments.items() if name not in target.used}
    body = None
    if remote.method in WITH_BODY:
        body = _body({**remote.body, **{name: rest[name] for name in rest if name not in remote.body}})
        headers = {"Content-Type": "application/json", **headers}
    else:
        fixed = target.query_names | set(query)
        query |= {name: value for name, value in rest.items() if name not in fixed}
    return FetchRequest(
        method=remote.method,
        url=with_query(target.url, query),
        headers={**headers, "Idempotency-Key": _sendable(invocation.idempotency_key)},
        body=body,
        timeout_s=invocation.timeout_s,
        max_bytes=MAX_ANSWER_BYTES,
        stop=invocation.stop,
    )


def _body(arguments_left: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(arguments_left, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # also lone surrogates
        raise ToolFailed("the arguments of this call have values that can't be sent as JSON") from None


def _headers_of(remote: RemoteExecution) -> dict[str, str]:
    """Return the headers of the definition. Raises ToolFailed, which repeats no value."""
    headers: dict[str, str] = {}
    taken: set[str] = set()
    for name, value in remote.headers.items():
        if name.lower() in OURS:
            raise ToolFailed(f"the header {name!r} of this tool's definition is not for a definition to set")
        if name.lower() in taken:
            raise ToolFailed(f"the header {name!r} is more than once in this tool's definition")
        taken.add(name.lower())
        headers[_usual(name)] = value.get_secret_value().strip()
    return headers


def _usual(name: str) -> str:
    return "Content-Type" if name.lower() == "content-type" else name


def _sendable(idempotency_key: str) -> str:
    """Return the key, or a hash where a header cannot carry it: models make up parts of it."""
    if is_sendable(idempotency_key) and 0 < len(idempotency_key) <= MAX_KEY_CHARACTERS:
        return idempotency_key
    return sha256(idempotency_key.encode("utf-8", "surrogatepass")).hexdigest()
