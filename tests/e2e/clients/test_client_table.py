"""Every client of the table works through its user's steps, and sees the facts in the table.

Covers: functions
"""

from __future__ import annotations

import pytest

from tests.support.clients.client_columns import COLUMNS, Column
from tests.support.clients.client_runs import ColumnRun, run_of
from tests.support.clients.client_table import LACKING, ROWS

pytestmark = pytest.mark.timeout(180)


def marks(column: Column) -> list[pytest.MarkDecorator]:
    return [pytest.mark.nightly] if column.is_nightly else []


CELLS = [
    pytest.param(column, row, id=f"{column.name}-{row}", marks=marks(column))
    for column in COLUMNS
    for row in ROWS[column.script]
    if column.client not in LACKING.get(row, ())
]


@pytest.fixture
def run(column: Column, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ColumnRun:
    return run_of(column, tmp_path_factory, request)


@pytest.mark.parametrize(("column", "row"), CELLS)
def test_the_client_sees_the_facts_of_the_table(column: Column, row: str, run: ColumnRun) -> None:
    outcome = run.outcomes[row]
    assert "facts" in outcome, f"{outcome}\n{run.log}"
    assert outcome["facts"] == ROWS[column.script][row]


@pytest.mark.parametrize("column", [pytest.param(each, id=each.name, marks=marks(each)) for each in COLUMNS])
def test_a_client_lacks_exactly_the_rows_named_as_lacking(column: Column, run: ColumnRun) -> None:
    assert set(run.outcomes) == set(ROWS[column.script])
    lacking = {row for row in ROWS[column.script] if column.client in LACKING.get(row, ())}
    assert {row for row, outcome in run.outcomes.items() if "lacks" in outcome} == lacking
