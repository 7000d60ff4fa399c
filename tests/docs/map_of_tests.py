"""The map of the tests, tests/README.md: its table of subjects and suites, and the modules that each test covers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

TESTS = ROOT / "tests"
PAGE = "tests/README.md"
SUITES = ("unit", "integration", "contract", "e2e")
BEGIN, END = "<!-- generated: make docs -->\n", "<!-- end -->\n"
COVERS = re.compile(r"^Covers: (.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)


def modules_of_tests() -> list[Path]:
    return sorted(TESTS.rglob("test_*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def covered_by(path: Path) -> tuple[str, ...]:
    """Return the addresses on the line `Covers:` of a test module, none if it has no such line."""
    found = COVERS.search(ast.get_docstring(tree_of(path)) or "")
    return tuple(re.split(r",\s+", found[1].strip())) if found else ()


def target_of(address: str) -> Path | None:
    """Return the file or folder at an address: below shared/turnstone, else below the project's folder."""
    candidates = (root / f"{address}{suffix}" for root in (ROOT / "shared/turnstone", ROOT) for suffix in (".py", ""))
    return next((path for path in candidates if path.exists()), None)


def table() -> str:
    """Return the table of subjects and suites: the number of test modules in each folder."""
    counts: Counter[tuple[str, str]] = Counter()
    for suite in SUITES:
        for path in (TESTS / suite).rglob("test_*.py"):
            counts[path.relative_to(TESTS / suite).parts[0], suite] += 1
    rows = [
        f"| {subject} | " + " | ".join(cell(subject, suite, counts) for suite in SUITES) + " |"
        for subject in names(counts)
    ]
    return "\n".join([f"| subject | {' | '.join(SUITES)} |", "|---" * (len(SUITES) + 1) + "|", *rows]) + "\n"


def names(counts: Counter[tuple[str, str]]) -> list[str]:
    return sorted({subject for subject, _ in counts})


def cell(subject: str, suite: str, counts: Counter[tuple[str, str]]) -> str:
    count = counts[subject, suite]
    return f"[{count}]({suite}/{subject}/)" if count else ""


def readme() -> str:
    """Return tests/README.md with the table as it should be."""
    before, _, rest = (ROOT / PAGE).read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"
