"""Code avoids the private idioms of `tests/language.py`, in its names and in its prose.

Covers: tests/language.py, shared/turnstone, functions
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


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_no_idiom(folder: str) -> None:
    found = [
        f"{one.file}:{one.line}: {one.text!r}: write {one.instead}"
        for path in modules(ROOT, (folder,))
        for one in found_in(path.read_text(), str(path.relative_to(ROOT)), ALLOWED)
    ]
    assert found == []


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
