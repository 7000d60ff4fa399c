"""Why Turnstone answers otherwise than Llama Stack 0.2.12, for each difference that the clients' scenarios show."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.beside.shapes import Difference


@dataclass(frozen=True)
class Reason:
    """An intended difference.

    Attributes:
        route, what, theirs, ours, row: patterns of the differences that it explains.
        subject, llama_stack, here, why: its row in the reference.
    """

    subject: str
    llama_stack: str
    here: str
    why: str
    route: str = ".*"
    what: str = ".*"
    theirs: str = ".*"
    ours: str = ".*"
    row: str = ".*"

    def explains(self, difference: Difference) -> bool:
        patterns = (self.route, self.what, self.theirs, self.ours, self.row)
        found = (difference.route, difference.what, difference.theirs, difference.ours, difference.row)
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in zip(patterns, found, strict=True))


def unexplained(differences: Iterable[Difference], reasons: Iterable[Reason]) -> Iterator[Difference]:
    """Yield the differences that no reason explains."""
    listed = tuple(reasons)
    yield from (one for one in differences if not any(reason.explains(one) for reason in listed))


SUBJECTS: Mapping[str, tuple[Reason, ...]] = {
    subject: tuple(Reason(**entry) for entry in entries)
    for subject, entries in tomllib.loads(Path(__file__).with_name("reasons.toml").read_text()).items()
}
REASONS = tuple(reason for reasons in SUBJECTS.values() for reason in reasons)


def reference() -> str:
    """Return the page of the reference, in Markdown."""
    parts = [
        "# Differences from Llama Stack 0.2.12\n",
        "`make side-by-side` runs clients against both servers, with the same scenarios and the same model.",
        "The tables list the differences that clients see in statuses, fields and the order of events.\n",
    ]
    for subject, reasons in SUBJECTS.items():
        parts += [f"## {subject}\n", "| | Llama Stack 0.2.12 | Turnstone | why |", "|---|---|---|---|"]
        parts += [f"| {one.subject} | {one.llama_stack} | {one.here} | {one.why} |" for one in reasons]
        parts.append("")
    return "\n".join(parts)
