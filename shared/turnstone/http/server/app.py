"""The ASGI app of declared routes: the route of a path and method, or its refusal."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute, Match, Router
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from turnstone.domain.errors.codes import ErrorCode
from turnstone.http.dialects import Dialect, dialect_below
from turnstone.http.errors import (
    is_log_line_needed,
    refusal_reply,
)
from turnstone.http.family_routes import FamilyRoutes
from turnstone.http.replies import Reply
from turnstone.http.route import Route
from turnstone.http.server.endpoint import NO_PATH, BodyLimits, Endpoint
from turnstone.http.server.family_paths import SLASHES, FamilyPaths, pattern_of
from turnstone.http.server.hosting import Hosting
from turnstone.http.server.rare_routes import RareRoutes
from turnstone.http.server.request_lines import RequestLine
from turnstone.http.server.route_threads import RouteThreads, ThreadBudget
from turnstone.http.server.sending import send_whole

if TYPE_CHECKING:
    from turnstone.http.server.other_paths import OtherPath
    from turnstone.services.use_cases import UseCases

NO_METHOD = "this path has no such method; the header Allow lists those that it has"
ROUTE_THREADS = 8
ROUTE_THREADS_OF_A_TENANT = 6
COMMON_THREADS = ROUTE_THREADS - 1  # of a family, beside one for each of its routes
SPARED_COMMON_THREADS = 2


def build_app(
    routes: Sequence[Route],
    use_cases: UseCases,
    limits: BodyLimits,
    hosting: Hosting,
    lifespan: Callable[[object], AbstractAsyncContextManager[None]] | None = None,
    others: Iterable[OtherPath] = (),
) -> RoutedApp:
    """Return the ASGI app that serves the routes, and refuses every method of the other paths."""
    for server in ("uvicorn.error", "mangum.http"):
        logging.getLogger(server).addFilter(is_log_line_needed)
    budgets = thread_budgets(routes, hosting)
    made: dict[tuple[str, str], Endpoint] = {}

    def serve(path: str, methods: Mapping[str, Route], threads: RouteThreads | None = None) -> _Served:
        for route in methods.values():
            if (route.method, route.path) not in made:
                own = threads or route_threads(f"{route.method} {route.path}", hosting, budgets[route.family])
                made[route.method, route.path] = Endpoint(route, use_cases, limits, hosting, own)
        endpoints = {method: made[method, route.path] for method, route in methods.items()}
        return _Served(path, _ByMethod(path, endpoints, hosting))

    served: list[BaseRoute] = []
    if isinstance(routes, FamilyRoutes):
        served.append(FamilyPaths(routes, serve))
    else:
        served.extend(serve(path, methods) for path, methods in _by_path(routes).items())
    if others:
        from turnstone.http.server.other_paths import OtherPaths  # only in the function of unserved paths

        served.append(OtherPaths(others, partial(_refuse_method, hosting)))
    if rare := _rare_in(routes):
        served.append(RareRoutes(rare, partial(serve, threads=route_threads("rare routes", hosting))))
    # a router alone: errors are caught here, so the layers of a whole Starlette application only cost time
    return RoutedApp(routes, hosting, routes=served, redirect_slashes=False, lifespan=lifespan)


def _rare_in(routes: Sequence[Route]) -> Callable[[], Iterable[Route]] | None:
    """Return the reader of the rarely requested routes, None without any."""
    if isinstance(routes, FamilyRoutes):
        return routes.unserved if routes.has_unserved else None
    rare = [route for route in routes if route.is_rare]
    return (lambda: rare) if rare else None


def _by_path(routes: Iterable[Route]) -> dict[str, dict[str, Route]]:
    """Return the routes by Starlette's pattern of each of their paths, and by method, without the rare ones."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        for path in () if route.is_rare else route.served_paths:
            methods = by_path.setdefault(pattern_of(path, takes_slashes=route.takes_slashes), {})
            if route.method in methods:
                raise ValueError(f"{route.method} {path} has two routes")
            methods[route.method] = route
    return by_path


class RoutedApp(Router):
    """A router that refuses paths without a route in the envelope of their dialect."""

    def __init__(self, declared: Sequence[Route], hosting: Hosting, **more: Any) -> None:
        super().__init__(**more)
        self._declared = declared
        self._hosting = hosting
        self._by_slashes = _by_slashes(self.routes)
        self._fixed = _fixed(self._by_slashes)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the first route of its path and method."""
        if scope["type"] == "http":
            # Starlette would also try the patterns before that of a fixed path, and those with more or fewer parts
            path = scope["path"]
            fixed = self._fixed.get(path)
            for served in self._by_slashes.get(path.count("/"), ()) if fixed is None else fixed:
                match, found = served.matches(scope)
                if match is Match.FULL:
                    scope.update(found)
                    await served.app(scope, receive, send)
                    return
        await super().app(scope, receive, send)

    async def not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = refusal_reply(ErrorCode.PATH_NOT_FOUND, NO_PATH, None, self.dialect_of(scope))
            await _send_refusal(refusal, scope, send, self._hosting)
        else:
            await super().not_found(scope, receive, send)

    def dialect_of(self, scope: Scope) -> Dialect:
        """Return the dialect for a request refused before its route is called."""
        for route in self.routes:
            served = route.served_at(scope) if isinstance(route, FamilyPaths) else route
            if isinstance(served, _Served) and served.matches(scope)[0] is not Match.NONE:
                return served.dialect_of(scope)
        return dialect_below(scope["path"], self._declared)


class _Served(StarletteRoute):
    """A path of the router; its app also answers methods without a route."""

    def __init__(self, path: str, by_method: _ByMethod) -> None:
        super().__init__(path, by_method, methods=by_method.methods)
        self._by_method = by_method

    def dialect_of(self, scope: Scope) -> Dialect:
        """Return the dialect of the request's method, of another method if this one is not served."""
        return self._by_method.dialect_of(scope["method"])

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def _by_slashes(routes: Iterable[BaseRoute]) -> dict[int, list[_Served]]:
    """Return the routes that may match a path, by its number of slashes, in their order."""
    served: list[_Served] = []
    for route in routes:
        if not isinstance(route, _Served):
            break  # it may take a path before the routes after it
        served.append(route)
    counts = {route.path.count("/") for route in served if SLASHES not in route.path}
    return {
        count: [route for route in served if SLASHES in route.path or route.path.count("/") == count]
        for count in counts
    }


def _fixed(by_slashes: Mapping[int, list[_Served]]) -> dict[str, list[_Served]]:
    """Return the routes that match each path without parameters, in their order."""
    paths = {route.path for routes in by_slashes.values() for route in routes if "{" not in route.path}
    return {path: [each for each in by_slashes[path.count("/")] if each.path_regex.match(path)] for path in paths}


class _ByMethod:
    """The routes of one path as an ASGI app; the refusal of a method lists all methods of the path."""

    def __init__(self, path: str, endpoints: Mapping[str, Endpoint], hosting: Hosting) -> None:
        self._path = path.replace(SLASHES, "}")
        self._endpoints = {**endpoints, "HEAD": endpoints["GET"]} if "GET" in endpoints else endpoints
        self._hosting = hosting
        self.methods = list(self._endpoints)

    def dialect_of(self, method: str) -> Dialect:
        return self._endpoints.get(method, self._endpoints[self.methods[0]]).dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            await _refuse_method(self._hosting, self.methods, self.dialect_of(scope["method"]), scope, send)
        else:
            await endpoint.answer(self._path, scope, receive, send)


async def _refuse_method(hosting: Hosting, methods: Iterable[str], dialect: Dialect, scope: Scope, send: Send) -> None:
    """Answer a request whose path lacks its method."""
    allowed = {"allow": ", ".join(methods)}
    await _send_refusal(refusal_reply(ErrorCode.METHOD_NOT_ALLOWED, NO_METHOD, allowed, dialect), scope, send, hosting)


async def _send_refusal(reply: Reply, scope: Scope, send: Send, hosting: Hosting) -> None:
    """Answer a request without a route for its path or method."""
    with RequestLine(scope["method"], None, hosting.request_id(scope), {"path": scope["path"]}) as line:
        await send_whole(reply, send, line)


def thread_budgets(routes: Sequence[Route], hosting: Hosting) -> dict[str, ThreadBudget]:
    """Return the budget of each family; together they bound the threads of the app's requests."""
    if isinstance(routes, FamilyRoutes):  # without loading their modules
        counts = Counter({routes.package: len(routes)})
    else:
        counts = Counter(route.family for route in routes if not route.is_rare)
    spared = SPARED_COMMON_THREADS if hosting.has_tenants else 0
    return {family: ThreadBudget(family, count, COMMON_THREADS, spared) for family, count in counts.items()}


def route_threads(name: str, hosting: Hosting, budget: ThreadBudget | None = None) -> RouteThreads:
    return RouteThreads(ROUTE_THREADS, name, ROUTE_THREADS_OF_A_TENANT if hosting.has_tenants else None, budget)
