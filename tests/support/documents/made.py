"""Documents made by hand: PDF and DOCX."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from xml.sax.saxutils import escape

HEADER = b"%PDF-1.4\n"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
RELATIONS = """<?xml version="1.0"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1"
Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>
</Relationships>"""
WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects, numbered from 1, of which the first is the catalogue."""
    body, offsets = bytearray(HEADER), []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"trailer\n<< /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(body)


def pdf_of_pages(contents: Sequence[bytes], pages: Sequence[int] | None = None, trailer: bytes = b"") -> bytes:
    """Return a PDF with these contents of pages.

    Args:
        pages: the indices of the contents that its pages show, in their order; None for each once.
    """
    shown = range(len(contents)) if pages is None else pages
    kids = b" ".join(b"%d 0 R" % (4 + 2 * index) for index in shown)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%b] >>" % (len(shown), kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for index, content in enumerate(contents):
        packed = zlib.compress(content)
        resources = b"<< /Font << /F1 3 0 R >> >>"
        page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources %b /Contents %d 0 R >>"
        objects.append(page % (resources, 5 + 2 * index))
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed))
    return pdf_of(objects, trailer)


def pdf_with(*pages: str) -> bytes:
    """Return a PDF with a line of text on each page."""
    contents = []
    for text in pages:
        shown = text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        contents.append(b"BT /F1 12 Tf 72 720 Td (%b) Tj ET" % shown)
    return pdf_of_pages(contents)


def paragraph(text: str, style: str = "") -> str:
    """Return a paragraph of a DOCX."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def docx_of(document: str | bytes, **parts: str | bytes) -> bytes:
    """Return a DOCX of this main part; `parts` are others in its folder, by their names without `.xml`."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("_rels/.rels", RELATIONS)
        package.writestr("word/document.xml", document)
        for name, content in parts.items():
            package.writestr(f"word/{name}.xml", content)
    return body.getvalue()


def docx_with(*blocks: str, **parts: str | bytes) -> bytes:
    """Return a DOCX with these blocks of its body, as XML."""
    return docx_of(f"<w:document {WORDS}><w:body>{''.join(blocks)}</w:body></w:document>", **parts)
