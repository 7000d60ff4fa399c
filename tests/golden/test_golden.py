"""Every scenario answers, requests and stores exactly the content of its transcripts, over either store.

Each run plays every scenario over SQLite and every sixth one over DynamoDB, each night all of them over both.

After an intended change, `make golden` writes the transcripts again; review their diff before the commit.

Covers: tests/golden, functions
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.golden import coverage, product
from tests.golden.every_scenario import SCENARIOS
from tests.golden.play import SETS, TRANSCRIPTS, Stage, differences, files_of, read, stage

PARTS = 8
OVER_DYNAMODB = 6  # one in so many scenarios
FOLDER = Path(__file__).parent
SEED = 7
NAMES = sorted(SCENARIOS)


@pytest.fixture(scope="module")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("golden")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_scenarios_equal_their_transcripts(part: int, shared_stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    cases = [(name, store) for name in NAMES[part::PARTS] for store in SCENARIOS[name].only if is_played(name, store)]
    assert differing(cases, shared_stage) == ""


@pytest.mark.nightly
def test_the_other_scenarios_equal_their_transcripts(shared_stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    cases = [(name, store) for name in NAMES for store in SCENARIOS[name].only if not is_played(name, store)]
    assert differing(cases, shared_stage) == ""


def is_played(name: str, store: str) -> bool:
    """Return whether each run plays the scenario over the store."""
    return store == "sqlite" or NAMES.index(name) % OVER_DYNAMODB == 0 or "sqlite" not in SCENARIOS[name].only


def differing(cases: Iterable[tuple[str, str]], played_on: Stage) -> str:
    found = [differences(SCENARIOS[name], store, played_on.play(SCENARIOS[name], store, SEED)) for name, store in cases]
    return "\n".join(filter(None, found))


def test_every_route_has_a_request() -> None:
    assert coverage.uncovered(product.ROUTES) == []


def test_every_status_occurs() -> None:
    assert product.STATUSES - coverage.statuses() == set()


def test_every_kind_of_failure_occurs() -> None:
    assert coverage.kinds_of_failures() == product.FAILURE_KINDS


def test_every_end_to_end_test_has_a_transcript_or_a_reason_for_the_gap() -> None:
    assert coverage.unnamed_tests() == []
    assert [name for name in coverage.LEFT_OUT if name.startswith("tests/") and not Path(name).exists()] == []


def test_every_transcript_has_a_scenario() -> None:
    expected = {
        path
        for name, scenario in SCENARIOS.items()
        for of in SETS
        for store in scenario.only
        for path in files_of(name, store, of)
    }
    assert [path for path in TRANSCRIPTS.rglob("*.txt") if path not in expected] == []
    assert all(read(path) for path in TRANSCRIPTS.rglob("*.txt"))


def test_one_module_imports_the_product() -> None:
    imports = re.compile(r"(?m)^\s*(?:from|import) (?:turnstone|functions)\b")
    assert [path.name for path in sorted(FOLDER.rglob("*.py")) if imports.search(path.read_text())] == ["product.py"]
