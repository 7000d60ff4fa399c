"""Links of the OpenAPI document: what can be done next with what a request has made."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnstone.http.routes import Route

PARAMETER = re.compile(r"{(\w+)}")


def links_of(route: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """Return links from a route that adds to a collection to those about what it added, by their operations."""
    if route.method != "POST":
        return {}
    known = _named_by(route)
    links = {}
    for other in routes:
        needed = PARAMETER.findall(other.path)
        if other.path.startswith(route.path + "/{") and known.keys() >= set(needed):
            operation = other.operation_id
            links[operation] = {"operationId": operation, "parameters": {name: known[name] for name in needed}}
    return links


def _named_by(route: Route) -> Mapping[str, str]:
    """Return where request and answer tell what the parameters of paths stand for."""
    asked = {name: f"$request.body#/{name}" for name in (route.body.model_fields if route.body else ())}
    told = {name: f"$response.body#/{name}" for name in getattr(route.reply, "model_fields", ())}
    own = {name: f"$request.path.{name}" for name in PARAMETER.findall(route.path)}
    return {**asked, **told, **own}
