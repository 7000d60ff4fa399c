"""The list of guards is true: each text is in its file, each named test exists, and no race is left out.

Covers: tests/guards
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.guards.every_guard import GUARDS
from tests.guards.guard import Guard
from tests.guards.races import OF_THE_DESIGN, Race
from tests.guards.workplace import ROOT, GuardNotFound, texts_without

NAMES = [f"{guard.race}: {guard.name}" for guard in GUARDS]
BY_FILE: dict[str, list[Guard]] = defaultdict(list)
TESTS_BY_FILE: dict[str, set[str]] = defaultdict(set)
for each in GUARDS:
    BY_FILE[each.edits[0].file].append(each)
    for name in each.tests:
        TESTS_BY_FILE[name.split("::")[0]].add(name)


@pytest.mark.parametrize("file", sorted(BY_FILE))
def test_each_guard_is_in_its_file_once_and_the_file_without_it_is_a_program(file: str) -> None:
    problems = [f"{guard.name}: {problem}" for guard in BY_FILE[file] if (problem := problem_of(guard))]
    assert problems == []


def problem_of(guard: Guard) -> str:
    files = {edit.file: (ROOT / edit.file).read_text() for edit in guard.edits}
    try:
        edited = texts_without(guard.edits, files)
    except GuardNotFound as error:
        return str(error)
    return "" if all(text != files[file] for file, text in edited.items()) else "nothing is taken out"


@pytest.mark.parametrize("file", sorted(TESTS_BY_FILE))
def test_tests_that_are_named_exist(file: str) -> None:
    named = {test: tuple(test.split("[")[0].split("::")[1:]) for test in TESTS_BY_FILE[file]}
    assert [test for test, names in named.items() if not is_defined(ROOT / file, names)] == []


def test_every_race_has_a_guard_and_every_guard_a_test() -> None:
    assert set(Race) == {guard.race for guard in GUARDS}
    assert len(OF_THE_DESIGN) == 19
    assert [guard.name for guard in GUARDS if not guard.tests] == []
    assert len(set(NAMES)) == len(NAMES)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def is_defined(path: Path, names: tuple[str, ...]) -> bool:
    """Return whether the module has the function, or the class has it or inherits it."""
    name, *inner = names
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef) and not inner and node.name == name:
            return True
        if isinstance(node, ast.ClassDef) and inner and node.name == name:
            own = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            return inner[0] in own or any(
                is_inherited(path, base.id, inner[0]) for base in node.bases if isinstance(base, ast.Name)
            )
    return False


def is_inherited(path: Path, base: str, name: str) -> bool:
    """Return whether the class of that name, of this module or imported into it, has the method."""
    for node in parsed(path).body:
        if isinstance(node, ast.ImportFrom) and base in {alias.name for alias in node.names}:
            return is_defined(ROOT / f"{str(node.module).replace('.', '/')}.py", (base, name))
    return is_defined(path, (base, name))
