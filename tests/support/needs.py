"""Requirements of tests that a machine may lack: tests are skipped with its name, or fail where nothing may be missing.

`TURNSTONE_REQUIRE_ALL=1` allows no missing tool. This module does not cover a property that no installation changes,
such as the kind of processor: `skipif` stays with the test.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from turnstone.adapters.embedding.files import are_there, missing_package

CLIENTS = Path(__file__).parents[2] / ".clients"
EMBEDDINGS = Path(__file__).parents[2] / "shared" / "turnstone-embeddings"
# the program, and Debian's package of it where that has another name; any of several names will do
PROGRAMS = {"chromium": ("chromium", "chromium-browser", "google-chrome")}
PACKAGES = {"node": "nodejs"}


def program(name: str) -> str | None:
    """Return the path of a program, None if it is not installed."""
    found = (shutil.which(each) for each in PROGRAMS.get(name, (name,)))
    return next((path for path in found if path is not None), None)


def need_programs(*names: str) -> None:
    """Skip the test unless all of these programs are installed."""
    if missing := [name for name in names if program(name) is None]:
        packages = ", ".join(PACKAGES.get(name, name) for name in missing)
        skip(f"not installed: {', '.join(missing)} (Debian's packages: {packages})")


def need_clients(*folders: str) -> None:
    """Skip the test unless these clients are installed, which `make` does."""
    if missing := [folder for folder in folders if not (CLIENTS / folder / "ready").exists()]:
        skip(f"not installed: {', '.join(missing)} (make {' '.join(f'.clients/{each}/ready' for each in missing)})")


def need_embeddings(model: str) -> Path:
    """Return the folder of a local embedding model's files; skip the test unless they are there."""
    if package := missing_package(model):
        skip(f"not installed: {package}, which the embedding model {model} needs")
    if not are_there(model, EMBEDDINGS):
        skip(f"not fetched: the embedding model {model} (turnstone embeddings fetch {model})")
    return EMBEDDINGS


def skip(reason: str) -> NoReturn:
    """Skip the test because something is missing; fail it where nothing may be."""
    if os.environ.get("TESTS_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
