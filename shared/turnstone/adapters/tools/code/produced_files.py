"""Files that code made, as they leave it: under a name that is one everywhere, with a type told by it."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable
from dataclasses import replace

from turnstone.domain.tools.tool_runs import ProducedFile

MAX_NAME = 120
NOT_IN_NAMES = re.compile(r"[^\w.()+-]+")
UNKNOWN = "application/octet-stream"
# of this package alone: the tables of the machine differ from one to the other
TYPES = mimetypes.MimeTypes()
TYPES.add_type("text/markdown", ".md")
TYPES.add_type("application/vnd.apache.parquet", ".parquet")
TYPES.add_type("application/x-ndjson", ".jsonl")


def produced_file(name: str, body: bytes, mime_type: str | None = None) -> ProducedFile:
    """Return the file, its type told by its name unless it is known."""
    kept = NOT_IN_NAMES.sub("_", name.rpartition("/")[2])
    stem, dot, ending = kept.rpartition(".")
    if len(kept) > MAX_NAME:
        kept = (stem or ending)[: MAX_NAME - 20] + dot + ending[:19] if dot else kept[:MAX_NAME]
    return ProducedFile(kept, mime_type or TYPES.guess_type(kept)[0] or UNKNOWN, body)


def named_apart(files: Iterable[ProducedFile]) -> tuple[ProducedFile, ...]:
    """Return the files, those with a number before their name whose name another has already."""
    named: dict[str, ProducedFile] = {}
    for file in files:
        name, number = file.name, 2
        while name in named:
            name, number = f"{number}-{file.name}", number + 1
        named[name] = replace(file, name=name)
    return tuple(named.values())
