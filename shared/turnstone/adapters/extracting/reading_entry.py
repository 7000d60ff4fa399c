"""The process that reads one document: it limits itself, reads its standard input, and writes the text.

Its output is a line of JSON, and then the text in UTF-8. An error that is not foreseen is a document's fault: only its
type and its position in the code are reported, because its message can contain text of the document.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from types import TracebackType
from typing import IO, Any

from turnstone.adapters.extracting.document_types import DocumentKind
from turnstone.domain.memory.extraction import ExtractionFailed, unreadable

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

MAX_HTML_BYTES = 64 * 1024 * 1024


def main(job: dict[str, Any]) -> None:
    """Write the text of the document, or the reason for which it has none.

    Args:
        job: `kind`, `charset`, and the limits `memory_bytes` of the address space and `seconds` of processor time.
    """
    sys.excepthook = report_crash
    limit(job["memory_bytes"], job["seconds"])
    try:
        with open(0, "rb", closefd=False) as file:
            text = text_of(DocumentKind(job["kind"]), file, job["charset"])
        body = text.replace("\0", "").encode("utf-8", "replace")
    except ExtractionFailed as failure:
        report({"code": failure.code, "message": str(failure)})
    except MemoryError:
        report({"code": "invalid_file", "message": too_much_memory(job["memory_bytes"])})
    else:
        report({"bytes": len(body)}, body)


def text_of(kind: DocumentKind, file: IO[bytes], charset: str | None) -> str:
    """Return the text; the modules of other kinds are not loaded. Raises ExtractionFailed."""
    match kind:
        case DocumentKind.PDF:
            from turnstone.adapters.extracting.pdf_text import pdf_text

            return pdf_text(file)
        case DocumentKind.WORD:
            from turnstone.adapters.extracting.word_text import word_text

            return word_text(file)
        case _:
            from turnstone.adapters.extracting.html_text import html_text

            file.seek(0)
            body = file.read(MAX_HTML_BYTES + 1)
            if len(body) > MAX_HTML_BYTES:
                raise unreadable(f"the page has more than {MAX_HTML_BYTES // 1024 // 1024} MiB; divide it")
            return html_text(body, charset)


def limit(memory_bytes: int, seconds: int) -> None:
    """Limit this process, as far as the system can: macOS ignores limits of memory."""
    if resource is None:
        return
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_CPU": seconds, "RLIMIT_AS": memory_bytes}
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            if sys.platform == "linux":
                raise


def too_much_memory(memory_bytes: int) -> str:
    """Return the message about a document that needs more memory than there is."""
    return f"reading the document takes more than {memory_bytes // 1024 // 1024} MiB of memory; divide it"


def report(found: dict[str, Any], body: bytes = b"") -> None:
    """Write the output."""
    with open(1, "wb", closefd=False) as output:
        output.write(json.dumps(found).encode() + b"\n")
        output.write(body)


def report_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write the position of an unforeseen error, and end."""
    innermost = traceback.extract_tb(trace)[-1]
    if issubclass(kind, ImportError) and kind.__name__ == "ModuleNotFoundError":
        report({"missing": getattr(error, "name", "")})
    else:
        file = "/".join(innermost.filename.split("/")[-2:])
        report({"crash": f"{kind.__name__} at {file}:{innermost.lineno}"})
    os._exit(1)
