"""The server itself: its root, health, version, documents, and its routes at their other prefixes."""

from __future__ import annotations

import json
from typing import Any

from tests.golden import product
from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.turns import CALL, WEATHER
from tests.golden.world import World

DOCUMENTS = ("/v1/openapi.json", "/openapi.json", "/v1/docs", "/docs")


@scenario("tests/e2e/server/test_docs_page.py", "tests/unit/server/test_openapi.py")
def documents(world: World) -> None:
    """The document is written down without its sentences, the page by its headers."""
    world.serve()
    for target in ("/v1/health", "/alpha/health", "/v1/version", "/"):
        world.send("GET", target)
    world.send("GET", "/", accept="text/html,application/xhtml+xml")
    for target in DOCUMENTS:
        world.send("GET", target, shown=shape if target == DOCUMENTS[0] else unshown)
    world.serve(auth="api_keys")
    for target in ("/v1/health", "/", *DOCUMENTS, "/v1/version"):
        world.send("GET", target, shown=unshown)


def unshown(_: bytes) -> bytes:
    return b"its content has tests of its own"


def shape(document: bytes) -> bytes:
    """Return the routes of a document: of each its parameters, bodies and answers."""
    values = json.loads(document)
    served = {(method, path) for method, path, _ in product.ROUTES}
    routes = {
        f"{method.upper()} {path}": [
            [
                parameter.get("$ref") or f"{parameter['in']} {parameter['name']}"
                for parameter in parameters_of(operation)
            ],
            names_in(operation.get("requestBody")),
            {status: names_in(answer) for status, answer in operation["responses"].items()},
        ]
        for path, methods in values["paths"].items()
        for method, operation in methods.items()
        if (method.upper(), path) in served
    }
    return json.dumps(routes, separators=(",", ":"), ensure_ascii=False).encode()


def parameters_of(operation: Any) -> list[Any]:
    found: list[Any] = operation.get("parameters", [])
    return found


def names_in(values: Any) -> list[str]:
    """Return the schemas that a part of a document refers to, in order."""
    if isinstance(values, dict):
        own = [values["$ref"].rpartition("/")[2]] if "$ref" in values else []
        return [*own, *(name for key, value in values.items() if key != "links" for name in names_in(value))]
    return [name for value in values for name in names_in(value)] if isinstance(values, list) else []


@scenario("tests/e2e/clients/test_agents_resources.py")
def other_prefixes(world: World) -> None:
    """Agents below /v1alpha, as clients of 0.3 request them."""
    world.serve()
    session = world.session(client_tools=[WEATHER])
    other = session.replace("/v1/", "/v1alpha/")
    turn = world.turn(other, CALL).json()
    path = f"{other}/turn/{turn['turn_id']}"
    world.get(f"{other}/context")
    world.send("POST", f"{path}/cancel", {})
    world.send("GET", f"{path}/events")
    world.send("GET", f"{other}/attachments/unknown")
