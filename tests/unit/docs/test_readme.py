"""README is one page, in the order in which a stranger decides and starts.

Covers: README.md
"""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, page

MAX_LINES = 180
IN_ORDER = (
    "## Dialects",
    "## Start",
    "## With the official client",
    "## A real model",
    "## Deploy to AWS",
    "## Features",
    "## Limits",
    "## Documentation",
)
FEATURES = 14


def test_it_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_LINES


def test_its_sections_stand_in_order() -> None:
    assert tuple(re.findall(r"^## .*$", page("README.md").prose, re.MULTILINE)) == IN_ORDER


def test_every_feature_links_to_its_page() -> None:
    section = page("README.md").prose.partition("## Features")[2].partition("## Limits")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == FEATURES
    assert not [row for row in rows if "](docs/" not in row]
