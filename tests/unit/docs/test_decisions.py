"""Each decision has a number of its own, its date, and the parts that a reader needs to undo it.

Covers: docs/decisions
"""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, Page

FOLDER = DOCS / "decisions"
INDEX = FOLDER / "README.md"
PAGES = tuple(Page(path) for path in sorted(FOLDER.glob("*.md")) if path != INDEX)
HEADING = re.compile(r"^## (D-(\d{3})) · (.+)$", re.MULTILINE)


def test_the_numbers_are_those_from_one_on() -> None:
    numbers = [int(number) for page in PAGES for _, number, _ in HEADING.findall(page.prose)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_every_heading_of_a_page_is_a_decision() -> None:
    for page in PAGES:
        assert len(re.findall(r"^##+ ", page.prose, re.MULTILINE)) == len(HEADING.findall(page.prose)), page.name


def test_the_index_has_each_with_its_title() -> None:
    index = INDEX.read_text()
    listed = re.findall(r"^\| <a id=\"(d-\d{3})\"></a>\[(D-\d{3})\]\(([a-z]+\.md)\) \| (.+?) \|", index, re.MULTILINE)
    expected = sorted(
        (number, page.path.name, title) for page in PAGES for number, _, title in HEADING.findall(page.prose)
    )
    assert [(number, file, title) for _, number, file, title in listed] == expected
    assert all(anchor == number.lower() for anchor, number, *_ in listed)


def test_the_index_has_the_number_of_decisions_of_each_page() -> None:
    listed = re.findall(r"^\| \[[\w ]+\]\(([a-z]+\.md)\) \| (\d+) \|$", INDEX.read_text(), re.MULTILINE)
    assert sorted(listed) == [(page.path.name, str(len(HEADING.findall(page.prose)))) for page in PAGES]


def test_each_has_a_date_a_reason_and_a_way_back() -> None:
    for page in PAGES:
        for entry in re.split(r"^(?=## D-)", page.prose, flags=re.MULTILINE)[1:]:
            title = entry.splitlines()[0]
            assert re.search(r"^Date: 2\d{3}-\d{2}-\d{2}\b", entry, re.MULTILINE), title
            for part in ("Decision", "Why", "Undo"):
                assert re.search(rf"^- \*\*{part}:\*\* \S", entry, re.MULTILINE), f"{title}: {part}"
