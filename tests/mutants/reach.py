"""Which tests reach which line, and how long they take: measured once, before any mutant."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

from tests.mutants.mutant import Mutant
from tests.mutants.trial import OPTIONS, in_a_fork

LIMIT_S = 1200


class Contexts:
    """A plugin that tags coverage with the test that runs, and records each test's duration and failure."""

    def __init__(self, coverage: Coverage) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self._coverage = coverage

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        began = time.monotonic()
        result = yield
        self.seconds[item.nodeid] = time.monotonic() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


@dataclass(frozen=True)
class Reach:
    """The results of a run of the tests without any mutant."""

    seconds: dict[str, float]
    failed: list[str]
    tests_of_line: dict[str, dict[int, list[str]]]

    def tests_for(self, mutant: Mutant, budget_s: float) -> list[str]:
        """The passing tests that reach the mutant, as many as fit the budget: one of each kind first, fastest first."""
        of_line = self.tests_of_line.get(str(mutant.path.resolve()), {})
        reaching = {test for line in mutant.lines for test in of_line.get(line, ())} & self.seconds.keys()
        if not reaching:  # it runs when the module is imported, if at all
            reaching = {test for tests in of_line.values() for test in tests} & self.seconds.keys()
        seen: Counter[str] = Counter()
        ranked = []
        for test in sorted(reaching - set(self.failed), key=self.seconds.__getitem__):
            file, function = test.partition("::")[0], test.partition("[")[0]
            ranked.append((seen[function], seen[file], test))
            seen.update((function, file))
        chosen, spent = [], 0.0
        for _, _, test in sorted(ranked):
            spent += self.seconds[test]
            if chosen and spent > budget_s:
                break
            chosen.append(test)
        return chosen


def measured(selection: Sequence[str], folder: Path) -> Reach:
    """Run the selected tests, and record the lines of our sources that each reaches."""
    data_file, report_file = folder / "coverage", folder / "report.json"

    def run() -> int:
        coverage = Coverage(data_file=str(data_file), include=["shared/turnstone/*"], config_file=False)
        plugin = Contexts(coverage)
        with coverage.collect():
            code = int(pytest.main([*OPTIONS, *selection], plugins=[plugin]))
        coverage.save()
        report_file.write_text(json.dumps({"seconds": plugin.seconds, "failed": plugin.failed}))
        return code

    code = in_a_fork(run, LIMIT_S)
    assert code in (0, 1), f"the tests did not run without a mutant: {code}"
    data = CoverageData(str(data_file))
    data.read()
    return Reach(
        **json.loads(report_file.read_text()),
        tests_of_line={path: data.contexts_by_lineno(path) for path in data.measured_files()},
    )
