"""Paths that other functions serve: a gateway passes the methods that these paths lack to a function without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from turnstone.http.dialects import Dialect
from turnstone.http.server.rare_routes import PathTable


class OtherPath(NamedTuple):
    """A path of another function.

    Attributes:
        path: with `{parameters}`, the last with a plus sign if its values may hold slashes.
        dialect: of its refusals.
    """

    path: str
    methods: tuple[str, ...]
    dialect: Dialect


Refuse = Callable[[Iterable[str], Dialect, Scope, Send], Awaitable[None]]


class OtherPaths(BaseRoute):
    """All paths of other functions as one Starlette route, which refuses every method."""

    def __init__(self, paths: Iterable[OtherPath], refuse: Refuse) -> None:
        self._refuse = refuse
        self._table: PathTable[OtherPath] = PathTable()
        for other in paths:
            takes_slashes = other.path.endswith("+}")
            self._table.setdefault(other.path, other, takes_slashes=takes_slashes)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self._table.find(scope["path"]) if scope["type"] == "http" else None
        return (Match.NONE, {}) if found is None else (Match.PARTIAL, {"other": found})

    async def handle(self, scope: Scope, _: Receive, send: Send) -> None:
        other: OtherPath = scope["other"]
        await self._refuse(other.methods, other.dialect, scope, send)
