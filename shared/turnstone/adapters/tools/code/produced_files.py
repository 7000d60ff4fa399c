"""Files produced by code: a portable name, and a media type from the name."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable
from dataclasses import replace

from turnstone.domain.tools.tool_runs import ProducedFile

MAX_NAME = 120
NOT_IN_NAMES = re.compile(r"[^\w.()+-]+")
UNKNOWN = "application/octet-stream"
# our own table: those of machines differ
TYPES = mimetypes.MimeTypes()
TYPES.add_type("text/markdown", ".md")
TYPES.add_type("application/vnd.apache.parquet", ".parquet")
TYPES.add_type("application/x-ndjson", ".jsonl")


def produced_file(name: str, body: bytes, mime_type: str | None = None) -> ProducedFile:
    """Return the file, with a media type from its name unless one is given."""
    kept = NOT_IN_NAMES.sub("_", name.rpartition("/")[2])
    stem, dot, ending = kept.rpartition(".")
    if len(kept) > MAX_NAME:
        kept = (stem or ending)[: MAX_NAME - 20] + dot + ending[:19] if dot else kept[:MAX_NAME]
    return ProducedFile(kept, mime_type or TYPES.guess_type(kept)[0] or UNKNOWN, body)


def named_apart(files: Iterable[ProducedFile]) -> tuple[ProducedFile, ...]:
    """Return the files, with a number before each duplicate name."""
    named: dict[str, ProducedFile] = {}
    for file in files:
        name, number = file.name, 2
        while name in named:
            name, number = f"{number}-{file.name}", number + 1
        named[name] = replace(file, name=name)
    return tuple(named.values())
