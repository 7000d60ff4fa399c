"""The paths of a family as one Starlette route, whose modules are loaded at the first request to a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from turnstone.http.family_routes import FamilyRoutes, Named
from turnstone.http.route import Route
from turnstone.http.server.rare_routes import PathTable

SLASHES = ":path}"  # end of a pattern with a last parameter that takes slashes
Served = TypeVar("Served", bound=BaseRoute)


class FamilyPaths(BaseRoute, Generic[Served]):
    """The routes of a family by path; those of a path are loaded together."""

    def __init__(self, family: FamilyRoutes, serve: Callable[[str, Mapping[str, Route]], Served]) -> None:
        """Take the maker of a path's route, called at the first request to that path."""
        self._family = family
        self._serve = serve
        self._served: dict[str, Served] = {}
        self._table: PathTable[_Methods] = PathTable()
        for named in family.named:
            for path in named.paths:
                methods = self._table.setdefault(
                    path, _Methods(path, named.takes_slashes, {}), takes_slashes=named.takes_slashes
                )
                methods.named[named.method] = named

    def served_at(self, scope: Scope) -> Served | None:
        """Return the route of the request's path, None if the family has none there."""
        found = self._table.find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return None
        served = self._served.get(found.path)
        if served is None:
            routes = {method: self._family.load(named) for method, named in found.named.items()}
            served = self._serve(pattern_of(found.path, takes_slashes=found.takes_slashes), routes)
            self._served[found.path] = served
        return served

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        served = self.served_at(scope)
        if served is None:
            return Match.NONE, {}
        match, found = served.matches(scope)
        return match, {**found, "served": served}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["served"].handle(scope, receive, send)


class _Methods(NamedTuple):
    path: str
    takes_slashes: bool
    named: dict[str, Named]


def pattern_of(path: str, *, takes_slashes: bool) -> str:
    """Return the path as Starlette's pattern."""
    return path.removesuffix("}") + SLASHES if takes_slashes else path
