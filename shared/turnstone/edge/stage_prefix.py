"""Removal of a gateway's prefix from the paths of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from turnstone.http.server.hosting import gateway_context

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from turnstone.http.server.app import RoutedApp

GREEDY = "+}"


class WithoutPrefix:
    """An app behind a gateway: removes a stage or a domain's base path in front of the API's paths.

    The gateway names the chosen resource, such as `/v1/agents/{agent_id}`; whatever precedes it is the prefix.
    No path is recognised by its end: `/x/v1/agents` is a path of its own, unless the resource is `/v1/agents`.
    """

    def __init__(self, app: RoutedApp, served: ASGIApp | None = None) -> None:
        """Take the routes, and the app around them that is called in their place, if there is one."""
        self.app = app
        self._served = served or app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._served(without_prefix(scope), receive, send)


def without_prefix(scope: Scope) -> Scope:
    """Return the scope with the path that belongs to the API; unchanged if the gateway named no resource."""
    if scope["type"] != "http":
        return scope
    event = scope.get("aws.event") or {"requestContext": gateway_context(scope), "path": _raw_path(scope)}
    context = event.get("requestContext")
    named = context.get("resourcePath") if isinstance(context, dict) else None
    resource = named or event.get("resource")
    if not isinstance(resource, str):
        return scope
    path = scope["path"]
    own = _own_path(path, str(event.get("path") or path), resource, event.get("pathParameters"))
    return scope if own == path else {**scope, "path": own}


def _own_path(path: str, raw: str, resource: str, parameters: Any) -> str:
    """Return the end of the path that the resource describes.

    Args:
        raw: the path as sent, in which a slash of a value is still encoded.
        parameters: values by the names in the resource, None if they are unknown.
    """
    if resource == "/":
        return "/"
    pattern, parts = resource.split("/")[1:], raw.split("/")[1:]
    extra = len(parts) - len(pattern)
    if pattern[-1].endswith(GREEDY):
        fixed = pattern[:-1]
        rest = parameters.get(pattern[-1][1 : -len(GREEDY)]) if isinstance(parameters, dict) else None
        if isinstance(rest, str) and not fixed:
            return _ending(path, rest)
        starts = [start for start in range(extra + 1) if fixed and _fits(parts[start:], fixed)]
        count = starts[0] if starts else 0
    else:
        count = extra if extra > 0 and _fits(parts[extra:], pattern) else 0
    return "/" + "/".join(path.split("/")[1 + count :])


def _fits(parts: list[str], pattern: list[str]) -> bool:
    return all(each.startswith("{") or each == part for part, each in zip(parts, pattern, strict=False))


def _ending(path: str, rest: str) -> str:
    """Return the rest with a slash before it if the path ends in it, else the path."""
    for text in (rest, unquote(rest)):
        if path.endswith("/" + text):
            return "/" + text
    return path


def _raw_path(scope: Scope) -> str | None:
    raw = scope.get("raw_path")
    return raw.partition(b"?")[0].decode("latin-1") if isinstance(raw, bytes) else None
