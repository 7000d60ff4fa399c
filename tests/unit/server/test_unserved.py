"""The table of routes that are not served: its rows, and the search for a path.

Covers: functions/local/server, functions/unserved/methods, dialects/unserved, http/route, http/server/rare_routes,
  functions/unserved, domain/unserved, http/unserved_routes, dialects/letta/server/unserved
"""

from __future__ import annotations

import re
import time

import pytest
from starlette.routing import Match

from functions.local.routes import ROUTES as SERVED
from functions.local.routes import UNSERVED as ROUTES
from turnstone.dialects.unserved import rows_of
from turnstone.http.route import Route
from turnstone.http.server.rare_routes import PathTable, RareRoutes

PARAMETER = re.compile(r"\{[^}]*\}")


def shape(path: str) -> str:
    """Return the path without the names of its parameters."""
    return PARAMETER.sub("{}", path)


def test_no_row_names_a_served_route() -> None:
    served = {(route.method, shape(path)) for route in SERVED for path in route.paths}
    assert not served & {(route.method, shape(route.path)) for route in ROUTES}


def test_no_request_has_two_rows() -> None:
    requests = [(route.method, shape(route.path)) for route in ROUTES]
    assert sorted(set(requests)) == sorted(requests)


def test_lines_of_both_kinds_are_rows_under_each_prefix() -> None:
    lines = """
        GET /a/{a_id}/b a.b,c.b
        /d d: list delete
    """
    found = [(row.method, row.path, row.called) for row in rows_of(((("/x", "/y"), "do z", lines),))]
    assert found == [
        ("GET", "/x/a/{a_id}/b", "a.b and c.b"),
        ("GET", "/y/a/{a_id}/b", "a.b and c.b"),
        ("GET", "/x/d", "d.list"),
        ("GET", "/y/d", "d.list"),
        ("DELETE", "/x/d/{id}", "d.delete"),
        ("DELETE", "/y/d/{id}", "d.delete"),
    ]
    (row, *_) = rows_of(((("/x",), "do z", "GET /a a.b"),))
    assert str(row.refusal()) == "this server does not have a.b (GET /x/a); do z"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/files", "files"),
        ("/files/one", "file"),
        ("/files/one/two", "file"),
        ("/files/one/content", "content"),
        ("/files/search", "search"),
        ("/files/", "file"),
        ("/files/search/content", "content"),
        ("/files//content", "file"),
        ("/", None),
        ("", None),
        ("/file", None),
        ("//files", None),
        ("/files\n", None),
    ],
)
def test_a_path_is_found_by_its_names_before_its_parameters(path: str, expected: str | None) -> None:
    table: PathTable[str] = PathTable()
    table.setdefault("/files", "files")
    table.setdefault("/files/{id}", "file", takes_slashes=True)
    table.setdefault("/files/{file_id}/content", "content")
    table.setdefault("/files/search", "search")
    assert table.find(path) == expected


def test_a_path_of_many_parts_costs_no_more_than_the_table_is_deep() -> None:
    routes = RareRoutes(lambda: ROUTES, lambda _path, _methods: pytest.fail("nothing is called"))
    hostile = "/v1/organization/projects" + "/organization/projects" * 50_000
    began = time.process_time()
    for _ in range(20):
        match, _ = routes.matches({"type": "http", "method": "GET", "path": hostile})
    assert time.process_time() - began < 1
    assert match is Match.FULL  # of admin.organization.projects.retrieve, whose id may hold slashes


def test_a_path_with_another_method_is_a_partial_match() -> None:
    routes = RareRoutes(
        lambda: [Route("GET", "/a/{b}", lambda _: pytest.fail("not called"), None)], lambda *_: pytest.fail("not made")
    )
    matches = {
        method: routes.matches({"type": "http", "method": method, "path": "/a/x"})[0]
        for method in ("GET", "HEAD", "POST")
    }
    assert matches == {"GET": Match.FULL, "HEAD": Match.FULL, "POST": Match.PARTIAL}
    assert routes.matches({"type": "lifespan"})[0] is Match.NONE
