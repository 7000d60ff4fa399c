"""Documents that are broken, hostile or endless: each ends in a message for its owner, in bounded time and memory.

Covers: adapters/extracting/reading_process, adapters/extracting/extractor, adapters/extracting/reading_entry
"""

from __future__ import annotations

import io
import os
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Thread

import pytest

from tests.support.documents.made import (
    DOCX,
    PDF,
    WORDS,
    docx_of,
    docx_with,
    paragraph,
    pdf_of_pages,
    pdf_with,
)
from turnstone.adapters.extracting.extractor import DocumentExtractor
from turnstone.adapters.extracting.reading_process import ReadingLimits, ReadingProcesses
from turnstone.domain.memory.texts.extraction import MAX_TEXT_BYTES, DocumentFile, ExtractionFailed
from turnstone.domain.values.cancellation import StopSignal

MEGABYTE = 1024 * 1024
MOST_MEMORY = 100 * MEGABYTE
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
LAUGHS = '<!DOCTYPE a [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;">]>'
ENCRYPTED = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%b> /U <%b> /P -4 >> /ID [<00> <00>]" % (
    b"41" * 32,
    b"42" * 32,
)


def failure(body: bytes, mime_type: str, limits: ReadingLimits | None = None) -> ExtractionFailed:
    extractor = DocumentExtractor(ReadingProcesses(limits or ReadingLimits()))
    with pytest.raises(ExtractionFailed) as failed:
        extractor.extract(DocumentFile(io.BytesIO(body), "", mime_type))
    return failed.value


def endless_pdf() -> bytes:
    """Return a small PDF of twenty thousand pages, each without text and with a quarter of a million operators."""
    return pdf_of_pages([b"q Q " * 250_000], pages=[0] * 20_000)


def encrypted_docx() -> bytes:
    """Return a DOCX whose main part is marked as encrypted."""
    body = bytearray(docx_with(paragraph("secret")))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = body.rfind(header)
        body[at + flags] |= 1
    return bytes(body)


def archive_of(name: str) -> bytes:
    """Return a ZIP archive of one part."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as package:
        package.writestr(name, "a")
    return body.getvalue()


@pytest.mark.parametrize(
    ("body", "mime_type", "code", "reason"),
    [
        (b"", "text/plain", "invalid_file", "empty"),
        (b" \n\t\n", "text/plain", "invalid_file", "no text"),
        ("Blåbär".encode("utf-16-le"), "text/plain", "invalid_file", "charset=utf-16"),
        (b"caf\xe9", "text/plain", "invalid_file", "save it as UTF-8"),
        (b"caf\xe9", "text/plain; charset=us-ascii", "invalid_file", "charset"),
        (b"abc", "text/plain; charset=rot13", "invalid_file", "'rot13' is not recognised"),
        (b"\x89PNG\x00", "image/png", "unsupported_file", "'image/png'"),
        (b"\x89PNG\x00", "", "unsupported_file", "declare its type"),
        (b"{\\rtf1 a}", "", "unsupported_file", "RTF"),
        (OLD_OFFICE, "", "invalid_file", "before 2007"),
        (OLD_OFFICE, DOCX, "invalid_file", "without a password"),
        (OLD_OFFICE, "application/msword", "unsupported_file", "'application/msword'"),
        (b"PK\x03\x04" + bytes(100), DOCX, "invalid_file", "damaged"),
        (docx_with(paragraph("a"))[:200], DOCX, "invalid_file", "damaged"),
        (docx_with(paragraph("")), DOCX, "invalid_file", "no text"),
        (docx_of("<w:document"), DOCX, "invalid_file", "damaged"),
        (docx_of(f"{LAUGHS}<w:document {WORDS}><w:t>&b;</w:t></w:document>"), DOCX, "invalid_file", "damaged"),
        (encrypted_docx(), DOCX, "invalid_file", "encrypted"),
        (b"no PDF", PDF, "invalid_file", "is a PDF, but its content is not"),
        (b"no DOCX", DOCX, "invalid_file", "is a DOCX, but its content is not"),
        (b"", PDF, "invalid_file", "empty"),
        (OLD_OFFICE, "text/csv", "invalid_file", "before 2007"),
        (archive_of("xl/workbook.xml"), "text/csv", "invalid_file", "ZIP archive without a Word document"),
        (pdf_with("a")[:120], PDF, "invalid_file", "damaged"),
        (pdf_of_pages([b"q 1 0 0 1 0 0 cm /Im1 Do Q"]), PDF, "invalid_file", "OCR"),
        (pdf_of_pages([b"BT (a) Tj ET"], trailer=ENCRYPTED), PDF, "invalid_file", "encrypted with a password"),
        (b"<p></p>", "text/html", "invalid_file", "no text"),
        (b'a,b\n"c,' + b"d" * 200_000, "text/csv", "invalid_file", "line"),
    ],
)
def test_a_document_without_readable_text_fails_with_a_code_and_a_reason(
    body: bytes, mime_type: str, code: str, reason: str
) -> None:
    failed = failure(body, mime_type)
    assert failed.code == code
    assert reason in str(failed)


def bomb() -> bytes:
    """Return a DOCX of less than a megabyte that unpacks to more than 128 MiB."""
    body = io.BytesIO()
    packed = zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as package, package.open("word/document.xml", "w") as part:
        part.write(f"<w:document {WORDS}>".encode())
        for _ in range(129):
            part.write(b" " * MEGABYTE)
    return body.getvalue()


HUGE: dict[str, Callable[[], tuple[bytes, str]]] = {
    "a bomb": lambda: (bomb(), DOCX),
    "a line": lambda: (b"a" * 100_000_000, "text/plain"),
    "a cell": lambda: (b"a,b\n" + b"a" * 60_000_000, "text/csv"),
    "a page": lambda: (b"<p>a" * 25_000_000, "text/html"),
    "the longest text": lambda: ((b"a" * 65_000 + "😀".encode()) * (MAX_TEXT_BYTES // 65_004), "text/plain"),
    "a content": lambda: (pdf_of_pages([b"BT /F1 1 Tf (a) Tj ET\n" * 3_000_000]), PDF),
}


@pytest.fixture
def limited() -> DocumentExtractor:
    return DocumentExtractor(ReadingProcesses(ReadingLimits(seconds=2)))


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_document_takes_less_than_100_megabytes_of_the_server(name: str, limited: DocumentExtractor) -> None:
    body, mime_type = HUGE[name]()
    before = memory_kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark becomes the present use
    began = time.monotonic()
    if name == "the longest text":
        limited.extract(DocumentFile(io.BytesIO(body), "", mime_type))
    else:
        with pytest.raises(ExtractionFailed):
            limited.extract(DocumentFile(io.BytesIO(body), "", mime_type))
    assert time.monotonic() - began < 10
    assert memory_kilobytes("VmHWM") - before < MOST_MEMORY // 1024


def memory_kilobytes(name: str) -> int:
    """Return the memory of this process that Linux reports under this name: now (VmRSS), or at most (VmHWM)."""
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(f"{name}:"))
    return int(line.split()[1])


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_document_that_never_ends_is_ended_in_time_and_leaves_nothing(temporary: Path) -> None:
    others, descriptors, began = children(), len(os.listdir("/dev/fd")), time.monotonic()
    failed = failure(endless_pdf(), PDF, ReadingLimits(seconds=0.8))
    assert (failed.code, "longer than 0.8 s" in str(failed)) == ("invalid_file", True)
    assert time.monotonic() - began < 5
    assert children() == others
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/dev/fd")) == descriptors


def test_a_cancelled_reading_ends_its_process() -> None:
    stop, found, others = StopSignal(), [], children()

    def act() -> None:
        with pytest.raises(ExtractionFailed) as failed:
            DocumentExtractor(ReadingProcesses()).extract(DocumentFile(io.BytesIO(endless_pdf()), "", PDF), stop)
        found.append(failed.value)

    reading = Thread(target=act)
    reading.start()
    while children() == others and reading.is_alive():
        time.sleep(0.01)
    stop.set()
    reading.join(5)
    assert [(each.code, "cancelled" in str(each)) for each in found] == [("server_error", True)]
    assert children() == others


def test_a_reading_without_a_free_process_waits_no_longer_than_its_time() -> None:
    failed = failure(b"<p>a", "text/html", ReadingLimits(seconds=0.05, at_once=0))
    assert (failed.code, "too many" in str(failed)) == ("server_error", True)


def test_a_document_that_needs_too_much_memory_fails_alone() -> None:
    failed = failure(b"<p>" + b"abc " * 10_000_000, "text/html", ReadingLimits(memory_bytes=100 * MEGABYTE))
    assert (failed.code, "100 MiB of memory" in str(failed)) == ("invalid_file", True)


def test_a_file_is_read_where_it_is(temporary: Path) -> None:
    extractor = DocumentExtractor(ReadingProcesses())
    with SpooledTemporaryFile(max_size=10) as spooled, (temporary / "a.pdf").open("wb+") as stored:
        for file in (spooled, stored):
            file.write(pdf_with("Terns"))
            assert extractor.extract(DocumentFile(file, "a.pdf")).text == "Terns"
            assert not file.closed


def children() -> set[int]:
    """Return the ids of this process's children."""
    tasks = Path("/proc/self/task")
    return {int(each) for task in tasks.iterdir() for each in (task / "children").read_text().split()}
