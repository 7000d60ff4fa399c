"""The page of costs and limits shows what the counts come to.

Covers: tests/benchmarks/scale
"""

from pathlib import Path

from tests.benchmarks.scale import tables

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "cost-and-limits.md"


def test_the_page_shows_what_the_counts_come_to() -> None:
    shown = PAGE.read_text().splitlines()
    assert [line for line in tables() if line not in shown] == []
