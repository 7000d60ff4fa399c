"""What README says of costs and limits is what the counts say."""

from pathlib import Path

from tests.benchmarks.scale import tables

README = Path(__file__).parents[2] / "README.md"


def test_readme_shows_what_the_counts_come_to() -> None:
    shown = README.read_text().splitlines()
    assert [line for line in tables() if line not in shown] == []
