"""Processes whose every model has a context window of a given size."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.engine.harness import Server
from turnstone.domain.models.routing import ModelRoute


def with_window(server: Server, tokens: int | None) -> Server:
    """Configure every model's context window."""
    route_of: Callable[[str, str], ModelRoute] = lambda _, name: ModelRoute(name, (), context_tokens=tokens)  # noqa: E731
    services = server.core.turn_services
    services.runner_deps = services.runner_deps._replace(route=route_of)
    for dependent in ("_runner", "turns", "recovery"):
        vars(services).pop(dependent, None)
    server.turns = server.core.turns
    object.__setattr__(server.core.contexts, "route_of", route_of)
    return server
