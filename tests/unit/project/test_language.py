"""Code avoids the private idioms of `tests/language.py`, in its names and in its prose.

Covers: tests/language.py, shared/turnstone, functions, tests
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language import found_in, modules

ROOT = Path(__file__).resolve().parents[3]
LAYERS = (
    "adapters",
    "bootstrap",
    "dialects",
    "domain",
    "edge",
    "engine",
    "http",
    "ports",
    "services",
    "settings",
    "store",
)
FOLDERS = (*(f"shared/turnstone/{layer}" for layer in LAYERS), "functions")
# a pattern such as "tests/*.py" stands for the modules of one folder, without its subfolders
TEST_FOLDERS = (
    "tests/*.py",
    *(f"tests/{path.name}" for path in sorted((ROOT / "tests").iterdir()) if (path / "__init__.py").exists()),
)
ALLOWED = frozenset(
    {
        "stamp",  # a field of stored records
        "place_wait_seconds",  # a setting, TURNSTONE_PLACE_WAIT_SECONDS
        "SessionWanted",  # names of schemas in the OpenAPI document
        "WantedTurns",
        "NullMeansDefault",  # "means" is the verb
        "NOBODY",  # the user of that name on Unix, and the caller without one
    }
)
# allowed in tests, in addition
ALLOWED_IN_TESTS = frozenset(
    {
        "bootstrap/places",  # a folder of the product, in the list of covered modules
        "handed_over",  # names of golden transcripts
        "end_of_a_session_that_nobody_keeps",
        "look",  # names and descriptions of tools and schemas in recorded requests of clients
        "Tell the weather.",
        "Place",
        "A place.",
    }
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_no_idiom(folder: str) -> None:
    assert _idioms_in(folder, ALLOWED) == []


@pytest.mark.parametrize("folder", TEST_FOLDERS)
def test_a_folder_of_tests_has_no_idiom(folder: str) -> None:
    assert _idioms_in(folder, ALLOWED | ALLOWED_IN_TESTS) == []


def _idioms_in(folder: str, allowed: frozenset[str]) -> list[str]:
    paths = list(modules(ROOT, (folder,)))
    assert paths, "no module to check"
    return [
        f"{one.file}:{one.line}: {one.text!r}: write {one.instead}"
        for path in paths
        for one in found_in(path.read_text(), str(path.relative_to(ROOT)), allowed)
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("told = 1", ["told"]),
        ("class ToolMeans: ...", ["ToolMeans"]),
        ("def f(is_wanted): ...", ["is_wanted"]),
        ('"""Tell who asks."""', ["Tell who asks."] * 3),
        ("x = 1  # looked at again", ["# looked at again"]),
        ('log.info("turn %s is given up")', ["turn %s is given up"]),
        ("lookup = 1  # in place of a cache, over `told`", []),
        ('raise ValueError("nobody told it")', []),
    ],
)
def test_an_idiom_is_found_in_names_and_prose(source: str, found: list[str]) -> None:
    assert [one.text for one in found_in(source, "module.py")] == found
