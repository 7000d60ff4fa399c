"""Seldom requested routes in one table: hundreds of patterns would be compiled and tried one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from turnstone.http.route import Route

Value = TypeVar("Value")


@dataclass(slots=True)
class _Node(Generic[Value]):
    """The continuations of a part of a path."""

    named: dict[str, _Node[Value]] = field(default_factory=dict)
    parameter: _Node[Value] | None = None
    value: Value | None = None
    rest: Value | None = None

    def found(self, parts: list[str], index: int) -> Value | None:
        """Return the value at the end of these parts; a name matches before a parameter, the longer path first."""
        if index == len(parts):
            return self.value
        for child in (self.named.get(parts[index]), self.parameter if parts[index] else None):
            if child is not None and (value := child.found(parts, index + 1)) is not None:
                return value
        return self.rest


class PathTable(Generic[Value]):
    """Values by paths with `{parameters}`, in a tree of their parts: the cost of a lookup is the tree's depth."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def setdefault(self, path: str, value: Value, *, takes_slashes: bool = False) -> Value:
        """Return the value of the path, set to this one if there was none.

        Args:
            takes_slashes: the last parameter takes the rest of the path.
        """
        *parts, last = path.split("/")
        node = self._root
        for part in parts:
            node = _child(node, part)
        if takes_slashes:
            node.rest = value if node.rest is None else node.rest
            return node.rest
        node = _child(node, last)
        node.value = value if node.value is None else node.value
        return node.value

    def find(self, path: str) -> Value | None:
        """Return the value of the best matching path, None if no path matches."""
        return self._root.found(path.split("/"), 0)


def _child(node: _Node[Value], part: str) -> _Node[Value]:
    if not part.startswith("{"):
        return node.named.setdefault(part, _Node())
    if node.parameter is None:
        node.parameter = _Node()
    return node.parameter


class RareRoutes(BaseRoute):
    """All rarely requested routes as one Starlette route, matched last."""

    def __init__(
        self, routes: Callable[[], Iterable[Route]], serve: Callable[[str, Mapping[str, Route]], BaseRoute]
    ) -> None:
        """Take the reader of the routes, and the maker of a path's route, each called when it is first needed."""
        self._routes = routes
        self._serve = serve
        self._served: dict[str, BaseRoute] = {}

    @cached_property
    def _table(self) -> PathTable[_Methods]:
        """The methods of each path. Most servers never need it, and it takes half of the time to build an app."""
        table: PathTable[_Methods] = PathTable()
        for route in self._routes():
            for path in route.served_paths:
                methods = table.setdefault(path, _Methods(path, {}), takes_slashes=route.takes_slashes)
                methods.routes[route.method] = route
        return table

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self._table.find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        return Match.FULL if method in found.routes else Match.PARTIAL, {"path_params": {}, "rare": found}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        found: _Methods = scope["rare"]
        served = self._served.get(found.path)
        if served is None:
            served = self._served[found.path] = self._serve(*found)
        await served.handle(scope, receive, send)


class _Methods(NamedTuple):
    path: str
    routes: dict[str, Route]
