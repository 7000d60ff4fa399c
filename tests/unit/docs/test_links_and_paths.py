"""Every link, anchor and file that the documentation names exists.

Covers: docs
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PACKAGE, ROOT, Page, pages

PAGES = {page.name: page for page in pages()}
INDEX = "docs/README.md"
EXTERNAL = ("https://", "http://", "mailto:")


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    assert broken_links(PAGES[name]) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_named_file_exists(name: str) -> None:
    page = PAGES[name]
    assert [file for file in page.named_files if not is_there(page, file)] == []


def test_every_page_is_reached_from_the_index() -> None:
    reached, left = set[Path](), [ROOT / INDEX]
    while left:
        path = left.pop()
        if path in reached or path.suffix != ".md" or not path.is_file():
            continue
        reached.add(path)
        left += [(path.parent / link.partition("#")[0]).resolve() for link in page_at(path).links if is_relative(link)]
    assert sorted(set(DOCS.rglob("*.md")) - reached) == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](guide/nothing.md)", ["guide/nothing.md"]),
        ("[a](#nothing)", ["#nothing"]),
        ("# A `b`, c\n[a](#a-b-c) and `[b](nothing.md)`", []),
        ("[a](README.md#nothing)", ["README.md#nothing"]),
        ("[a](README.md) [b](https://host.example/nothing)", []),
    ],
)
def test_a_broken_link_is_found(text: str, broken: list[str]) -> None:
    assert broken_links(Page(ROOT / INDEX, text)) == broken


@pytest.mark.parametrize("named", ["services/nothing.py", "nothing.py", "shared/turnstone/nothing/", "docs/nothing.md"])
def test_a_file_that_is_not_there_is_found(named: str) -> None:
    page = Page(ROOT / INDEX, f"see `{named}`")
    assert [file for file in page.named_files if not is_there(page, file)] == [named]


def broken_links(page: Page) -> list[str]:
    return [link for link in page.links if not link.startswith(EXTERNAL) and not leads_somewhere(page, link)]


def leads_somewhere(page: Page, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.path.parent / path).resolve() if path else page.path
    if not target.exists():
        return False
    if not anchor:
        return True
    of_target = page if target == page.path else page_at(target)
    return anchor in of_target.anchors


def is_relative(link: str) -> bool:
    return not link.startswith((*EXTERNAL, "#"))


def is_there(page: Page, file: str) -> bool:
    """Return whether the file exists in the repository, in the package, or beside the page."""
    return any((folder / file).exists() for folder in (ROOT, PACKAGE, page.path.parent))


@cache
def page_at(path: Path) -> Page:
    return Page(path)
