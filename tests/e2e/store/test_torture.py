"""A few rounds of what `make torture` does a hundred times.

Covers: adapters/sqlite, services/turns
"""

from pathlib import Path

import pytest

from tests.e2e.torture import torture

ROUNDS = 5


@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again_loses_nothing_it_told(tmp_path: Path) -> None:
    counts = torture(tmp_path, ROUNDS, seed=7)
    assert counts["kills"] == ROUNDS
    assert counts["streams broken off"] > 0
    assert counts["turns stored"] >= counts["turns acknowledged"] > 0
