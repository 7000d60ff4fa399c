"""What a guard is: the text that keeps a race closed, what is left when it is gone, and the tests that notice."""

from __future__ import annotations

from dataclasses import dataclass

from tests.guards.races import Race

SHARED = "shared/turnstone/"


@dataclass(frozen=True)
class Edit:
    """A place in a file, given from the project's folder on, and what stands there once the guard is gone."""

    file: str
    found: str
    replaced_by: str = ""


@dataclass(frozen=True)
class Guard:
    """What keeps a race closed.

    Attributes:
        name: what goes on, in a few words; of guards that double each other, that they do.
        edits: how it is taken out. Where one guard doubles another, both are, because each alone would be missed by
            nobody.
        tests: the tests that fail without it, each as pytest names it; without brackets, any of its cases.
    """

    race: Race
    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def ours(file: str, found: str, replaced_by: str = "") -> Edit:
    """Return an edit of a file of the package."""
    return Edit(SHARED + file, found, replaced_by)
