"""Every request of Letta's client 1.12 is served, at the path of an earlier client or its own, or refused by its name.

Covers: dialects/letta/server/later_methods, dialects/letta/server/unserved, http/route
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.local.routes import ROUTES
from tests.support.needs import CLIENTS, need_clients
from turnstone.dialects.letta.server.later_methods import LATER
from turnstone.dialects.unserved import rows_of

RESOURCES = CLIENTS / "letta-1" / "letta_client" / "resources"
REQUESTS = 125  # of letta-client 1.12
VERBS = {"_get", "_post", "_patch", "_put", "_delete", "_get_api_list"}
# methods whose path differs from that of client 0.1.16, by the path that it has there
ALIASES = {
    "agents.blocks.list": "GET /agents/{}/memory/block",
    "agents.blocks.retrieve": "GET /agents/{}/memory/block/{}",
    "agents.blocks.update": "PATCH /agents/{}/memory/block/{}",
    "agents.folders.list": "GET /agents/{}/sources",
    "agents.passages.create": "POST /agents/{}/archival",
    "agents.passages.delete": "DELETE /agents/{}/archival/{}",
    "agents.passages.list": "GET /agents/{}/archival",
    "agents.tools.attach": "PATCH /agents/{}/add-tool/{}",
    "agents.tools.detach": "PATCH /agents/{}/remove-tool/{}",
    "folders.create": "POST /sources",
    "folders.delete": "DELETE /sources/{}",
    "folders.files.delete": "DELETE /sources/{}/{}",
    "folders.files.list": "GET /sources/{}/files",
    "folders.list": "GET /sources",
    "folders.retrieve": "GET /sources/{}",
    "folders.update": "PATCH /sources/{}",
}
SAME = """
    agents.create agents.delete agents.export_file agents.import_file agents.list agents.retrieve agents.update
    agents.messages.create agents.messages.create_async agents.messages.list agents.messages.reset
    agents.messages.stream agents.tools.list blocks.create blocks.delete blocks.list blocks.retrieve blocks.update
    models.embeddings.list models.list runs.list runs.messages.list runs.retrieve runs.usage.retrieve tags.list
    tools.create tools.delete tools.list tools.retrieve tools.update tools.upsert
"""


def shape(method: str, path: str) -> str:
    return f"{method} {re.sub(r'{[^}]*}', '{}', path.removeprefix('/letta/v1'))}"


def methods_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each method of a module of the client by name, with the method and the path of its request."""
    *folders, last = path.relative_to(RESOURCES).with_suffix("").parts
    resource = ".".join(folders if folders and folders[-1] == last else (*folders, last))
    for made in ast.parse(path.read_text()).body:
        if isinstance(made, ast.ClassDef) and re.fullmatch(r"(?!Async)\w+Resource", made.name):
            for method in (each for each in made.body if isinstance(each, ast.FunctionDef)):
                yield from ((f"{resource}.{method.name}", request) for request in requests_of(method))


def requests_of(method: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VERBS:
            verb = node.func.attr.removeprefix("_").upper().removesuffix("_API_LIST")
            named = {each.arg: each.value for each in node.keywords}
            if isinstance(other := named.get("method"), ast.Constant):
                verb = str(other.value).upper()
            yield f"{verb} {path_of(node.args[0])}"


def path_of(node: ast.expr) -> str:
    """Return the path of a request with `{}` for its parameters; the client quotes them in a call."""
    if isinstance(node, ast.Call):
        node = node.args[0]
    assert isinstance(node, ast.Constant)
    return re.sub(r"{[^}]*}", "{}", str(node.value)).removeprefix("/v1").removesuffix("/")


@pytest.fixture(scope="module")
def sent() -> dict[str, str]:
    need_clients("letta-1")
    found = [each for path in sorted(RESOURCES.rglob("*.py")) for each in methods_in(path)]
    assert len(found) == len(dict(found)) == REQUESTS
    return dict(found)


def test_each_method_of_the_client_is_served_renamed_or_refused_by_name(sent: dict[str, str]) -> None:
    routes = [route for route in ROUTES if route.dialect.name == "letta"]
    own = {shape(route.method, route.path) for route in routes}
    renamed = {shape(route.method, path): shape(route.method, route.path) for route in routes for path in route.paths}
    refused = {row.called: shape(row.method, row.path) for row in rows_of(LATER)}
    assert {called: renamed[sent[called]] for called in ALIASES} == ALIASES
    assert not {sent[called] for called in ALIASES} & own
    assert {sent[called] for called in SAME.split()} <= own
    assert {called: request for called, request in sent.items() if called in refused} == refused
    assert sorted(sent) == sorted((*ALIASES, *SAME.split(), *refused))


def test_a_renamed_path_is_the_same_route() -> None:
    aliased = [route for route in ROUTES if route.dialect.name == "letta" and len(route.paths) > 1]
    assert len(aliased) == len(ALIASES) + 2  # the client lacks two methods of memory blocks
    for route in aliased:
        own, other = route.paths
        assert re.findall(r"{\w+}", own) == re.findall(r"{\w+}", other)
        assert route.served_paths == (own, own + "/", other, other + "/")
