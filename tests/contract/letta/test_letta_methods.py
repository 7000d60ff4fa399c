"""Every request of Letta's client is served, or refused by its name.

Covers: functions/letta, dialects/letta/server/unserved, functions/letta/server/unserved_methods
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.local.routes import ROUTES
from tests.support.needs import CLIENTS, need_clients
from tests.support.server.asgi_client import Raw, served
from turnstone.dialects.letta.server.unserved import GROUPS, unserved
from turnstone.dialects.unserved import rows_of

CLIENT = CLIENTS / "letta" / "letta_client"
REQUESTS = 82  # of letta-client 0.1.16


def requests_in(tree: ast.AST) -> Iterator[str]:
    """Yield the method and path of each request that a module of the client sends."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        methods = [each.value.value for each in node.keywords if each.arg == "method"]  # type: ignore[attr-defined]
        if node.func.attr in ("request", "stream") and methods:
            yield f"{methods[0]} {path_of(node.args[0])}"


def path_of(node: ast.expr) -> str:
    """Return the path of a request with `{}` for its parameters."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = (str(each.value) if isinstance(each, ast.Constant) else "{}" for each in parts)
    return "".join(texts).removeprefix("v1").removesuffix("/")


def shape(method: str, path: str) -> str:
    return f"{method} {re.sub(r'{[^}]*}', '{}', path.removeprefix('/letta/v1'))}"


@pytest.fixture(scope="module")
def sent() -> set[str]:
    need_clients("letta")
    modules = (path.read_text() for path in CLIENT.rglob("client.py"))
    return {request for module in modules for request in requests_in(ast.parse(module))}


def test_each_request_of_the_client_is_served_or_refused_by_name(sent: set[str]) -> None:
    assert len(sent) == REQUESTS
    ours = {shape(route.method, route.path) for route in ROUTES if route.dialect.name == "letta"}
    refused = {shape(row.method, row.path) for row in rows_of(GROUPS)}
    assert not refused & ours
    assert sent == (ours & sent) | refused


def test_a_refused_request_answers_501_with_its_name(tmp_path: Path) -> None:
    with served(tmp_path) as serving:
        for row in unserved():
            for slash in ("", "/"):
                path = re.sub(r"{\w+}", "some-name", row.path) + slash
                answer = serving.client.send(Raw(row.method, path.encode(), (b"{}",)))
                assert answer.status == 501, path
                assert row.called in answer.json()["detail"]
                assert answer.json()["code"] == "not_implemented"
