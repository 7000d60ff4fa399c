"""A few rounds of the test that `make torture` runs a hundred times.

Covers: adapters/sqlite, services/turns
"""

from pathlib import Path

import pytest

from tests.e2e.torture import torture

ROUNDS = 5


@pytest.mark.slow
def test_a_server_that_is_killed_repeatedly_loses_no_acknowledged_result(tmp_path: Path) -> None:
    counts = torture(tmp_path, ROUNDS, seed=7)
    assert counts["kills"] == ROUNDS
    assert counts["aborted streams"] > 0
    assert counts["turns stored"] >= counts["turns acknowledged"] > 0
