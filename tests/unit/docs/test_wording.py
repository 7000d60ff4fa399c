"""The documentation avoids the private idioms of the list.

Covers: docs, tests/docs/idioms
"""

from __future__ import annotations

import pytest

from tests.docs.idioms import found_in
from tests.docs.pages import pages

PAGES = {page.name: page for page in pages()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_idiom(name: str) -> None:
    assert found_in(PAGES[name].sentences) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the caller is told so", ["told"]),
        ("It goes on.", ["goes on"]),
        ("handed over, then it gave the turn up", ["handed over", "gave the turn up"]),
        ("a timestamp, a workplace, and a lookup", []),
    ],
)
def test_an_idiom_is_found_as_a_whole_word(text: str, found: list[str]) -> None:
    assert [line.split("'")[1] for line in found_in(text)] == found
