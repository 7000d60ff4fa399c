"""Definition of a guard: the text that keeps a race closed, the text without it, and the tests that notice."""

from __future__ import annotations

from dataclasses import dataclass

from tests.guards.races import Race

SHARED = "shared/turnstone/"


@dataclass(frozen=True)
class Edit:
    """A passage of a file, by its path in the project, and the text that replaces it without the guard."""

    file: str
    found: str
    replaced_by: str = ""


@dataclass(frozen=True)
class Guard:
    """Code that keeps a race closed.

    Attributes:
        name: its effect, in a few words; guards that double each other are marked so.
        edits: the changes that remove it. Where one guard doubles another, both are, because no test misses
            one alone.
        tests: the tests that fail without it, each as pytest names it; without brackets, any of its cases.
    """

    race: Race
    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def ours(file: str, found: str, replaced_by: str = "") -> Edit:
    """Return an edit of a file of the package."""
    return Edit(SHARED + file, found, replaced_by)
