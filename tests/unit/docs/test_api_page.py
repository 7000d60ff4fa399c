"""The API reference is the page that the routes generate, and has every route.

Covers: tests/docs/api_reference
"""

from __future__ import annotations

import pytest

from functions.local.routes import ROUTES
from tests.docs.api_reference import PAGE, reference
from tests.docs.pages import Page, page


@pytest.fixture(scope="module")
def generated() -> str:
    return reference()


def test_the_page_is_the_generated_one(generated: str) -> None:
    assert page(PAGE).text == generated, "the routes have changed: make docs"


def test_every_path_of_every_route_is_on_it(generated: str) -> None:
    headings = {line.removeprefix("### ") for line in generated.splitlines() if line.startswith("### ")}
    for route in ROUTES:
        assert f"{route.method} {route.paths[0]}" in headings
        for alias in route.paths[1:]:
            assert f"`{alias}`" in generated, alias


def test_every_field_of_a_body_has_a_description(generated: str) -> None:
    begun = generated.index("## Types")
    rows = [line for line in generated[begun:].splitlines() if line.startswith("| `")]
    assert len(rows) > 500
    assert not [row for row in rows if row.endswith("|  |")]


def test_no_link_of_the_page_is_broken(generated: str) -> None:
    made = Page(page(PAGE).path, generated)
    targets = {link.removeprefix("#") for link in made.links if link.startswith("#")}
    assert targets <= made.anchors
