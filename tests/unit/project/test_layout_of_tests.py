"""Tests have an address, a suite and a subject. They share helpers, not test modules, and name the code they cover.

Covers: tests/docs/map_of_tests, tests/README.md
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.docs.map_of_tests import PAGE, SUITES, TESTS, covered_by, modules_of_tests, readme, target_of, tree_of
from tests.docs.pages import ROOT

MOST_MODULES = 14
PACKAGE = ROOT / "shared/turnstone"
LAYERS = ("services", "store", "engine", "adapters")


def imported_by(path: Path) -> Iterator[str]:
    """Yield each module that a file may import; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))


def test_no_module_imports_a_test_module() -> None:
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules_of_tests()}
    paths = sorted(TESTS.rglob("*.py"))
    assert len(modules) > 150
    assert [
        (str(path.relative_to(TESTS)), name) for path in paths for name in imported_by(path) if name in modules
    ] == []


def test_every_test_module_is_in_the_folder_of_a_subject() -> None:
    assert [path.name for suite in SUITES for path in (TESTS / suite).glob("test_*.py")] == []


def test_no_folder_has_more_modules_than_fit_a_screen() -> None:
    folders = Counter(
        path.parent
        for room in (*SUITES, "smoke", "support", "fakes")
        for path in (TESTS / room).rglob("*.py")
        if path.name != "__init__.py"
    )
    assert {str(folder.relative_to(TESTS)): count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_every_test_module_names_what_it_covers_and_that_exists() -> None:
    assert [str(path.relative_to(TESTS)) for path in modules_of_tests() if not covered_by(path)] == []
    missing = {
        str(path.relative_to(TESTS)): gone
        for path in modules_of_tests()
        if (gone := [address for address in covered_by(path) if target_of(address) is None])
    }
    assert missing == {}


def test_every_module_of_the_inner_layers_is_named_by_a_test_module() -> None:
    named = {address for path in modules_of_tests() for address in covered_by(path)}
    modules = {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for layer in LAYERS
        for path in (PACKAGE / layer).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(modules - named) == []


def test_the_table_counts_the_test_modules_that_there_are() -> None:
    assert (ROOT / PAGE).read_text() == readme(), "test modules have changed: make docs"
