"""The pages on the layout and on the life of a turn agree with the code.

Covers: docs/internals
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import DOCS, PACKAGE, ROOT, Page

LAYOUT = Page(DOCS / "internals" / "layout.md")
LIFE = Page(DOCS / "internals" / "life-of-a-turn.md")
STEP = re.compile(r"^\| \d+ \| `([^`]+)` \| ([^|]+) \|", re.MULTILINE)


@pytest.mark.parametrize("page", [LAYOUT, LIFE], ids=["layout", "life"])
def test_paths_are_relative_to_the_package(page: Page) -> None:
    assert re.findall(r"`shared/turnstone/[^`]+`", page.prose) == []


def test_each_step_of_a_turn_names_what_its_file_defines() -> None:
    steps = STEP.findall(LIFE.prose)
    assert len(steps) == 14
    for file, names in steps:
        path = PACKAGE / file if (PACKAGE / file).is_file() else ROOT / file
        named = set(re.findall(r"`([^`]+)`", names))
        assert named, file
        assert named <= names_in(path.read_text()), file


def test_no_name_of_the_engine_contains_resume() -> None:
    for path in sorted((PACKAGE / "engine").rglob("*.py")):
        assert [name for name in identifiers_in(path.read_text()) if "resume" in name.lower()] == [], path.name


def names_in(source: str) -> set[str]:
    """Return the functions and classes of the source, and methods as `Class.method`."""
    top = [node for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    inner = {
        f"{node.name}.{method.name}"
        for node in top
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }
    return {node.name for node in top} | inner


def identifiers_in(source: str) -> set[str]:
    """Return every name that the source defines or uses."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        found |= {getattr(node, field, None) for field in ("id", "name", "attr", "arg")}
    return {name for name in found if isinstance(name, str)}
