"""Mutants of mutmut: one small change each, identified by the file and a number there."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from pathlib import Path

from mutmut.mutation.file_mutation import create_mutations, deep_replace
from mutmut.utils.file_utils import walk_mutatable_files

IMPORT_ROOT = Path("shared")


@dataclass(frozen=True)
class Mutant:
    """One change of one file, `number` counting the changes that mutmut lists for it."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.path}#{self.number}"

    @property
    def package(self) -> str:
        return self.path.parent.name

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(IMPORT_ROOT).with_suffix("").parts)

    @cached_property
    def source(self) -> str:
        module, mutations, _, _ = create_mutations(str(self.path), self.path.read_text())
        mutation = mutations[self.number]
        return str(deep_replace(module, mutation.original_node, mutation.mutated_node).code)

    def diff(self, around: int = 1) -> list[str]:
        """The lines that differ and some around them, after a head `@@ -first,count +first,count @@`."""
        before, after = self.path.read_text().splitlines(), self.source.splitlines()
        return list(unified_diff(before, after, n=around, lineterm=""))[2:]

    @property
    def lines(self) -> range:
        """The lines of the file that the change replaces or stands behind."""
        first, _, count = self.diff(0)[0].split()[1].lstrip("-").partition(",")
        return range(int(first), int(first) + max(int(count or 1), 1))


def all_mutants() -> list[Mutant]:
    """Every mutant of the files that pyproject.toml names for mutmut, in an order that stays."""
    mutants = []
    for path in sorted(walk_mutatable_files()):
        mutations = create_mutations(str(path), path.read_text())[1]
        mutants += [Mutant(path, number) for number in range(len(mutations))]
    return mutants


def named(text: str) -> Mutant:
    """The mutant that `str` gave that name."""
    path, _, number = text.rpartition("#")
    return Mutant(Path(path), int(number))
