"""Searches and ingests of memory banks take little processor time, and an ingest little memory.

Covers: adapters/retrieval, services/memory
"""

from pathlib import Path

import pytest

from tests.benchmarks.memory import MIDDLE, SMALL, searches_and_ingests


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_banks_of_some_thousand_chunks_meet_their_bars(tmp_path: Path) -> None:
    figures = list(searches_and_ingests(tmp_path, (SMALL, MIDDLE)))
    assert len(figures) == 11
    assert [figure for figure in figures if not figure.is_met] == []
