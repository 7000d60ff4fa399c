"""Links of the OpenAPI document: from an operation that creates an object to the operations on that object."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnstone.http.route import Route

PARAMETER = re.compile(r"{(\w+)}")


def links_of(route: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """Return the links of a route that creates an object to the routes of that object, by their operation ids."""
    if route.method != "POST":
        return {}
    expressions = _named_by(route)
    links = {}
    for other in routes:
        needed = PARAMETER.findall(other.path)
        if other.path.startswith(route.path + "/{") and expressions.keys() >= set(needed):
            operation = other.operation_id
            links[operation] = {"operationId": operation, "parameters": {name: expressions[name] for name in needed}}
    return links


def _named_by(route: Route) -> Mapping[str, str]:
    """Return runtime expressions for the values of path parameters in the request and its answer, by name."""
    in_body = {name: f"$request.body#/{name}" for name in (route.body.model_fields if route.body else ())}
    in_answer = {name: f"$response.body#/{name}" for name in getattr(route.reply, "model_fields", ())}
    in_path = {name: f"$request.path.{name}" for name in PARAMETER.findall(route.path)}
    return {**in_body, **in_answer, **in_path}
