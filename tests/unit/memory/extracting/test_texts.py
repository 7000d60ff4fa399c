"""Texts of documents of each type.

Covers: adapters/extracting/extractor, adapters/extracting/document_types, adapters/extracting/text_decoding,
adapters/extracting/tables, adapters/extracting/html_text, adapters/extracting/text_lines, adapters/extracting/pdf_text,
adapters/extracting/word_text, adapters/extracting/reading_entry
"""

from __future__ import annotations

import io

import pytest

from tests.support.documents.made import DOCX, PDF, WORDS, docx_with, paragraph, pdf_with
from turnstone.adapters.extracting.extractor import DocumentExtractor
from turnstone.adapters.extracting.reading_process import ReadingProcesses
from turnstone.domain.memory.texts.extraction import DocumentFile, Extracted

EXTRACTOR = DocumentExtractor(ReadingProcesses())


def read(body: bytes, mime_type: str = "", name: str = "") -> Extracted:
    return EXTRACTOR.extract(DocumentFile(io.BytesIO(body), name, mime_type))


@pytest.mark.parametrize(
    ("body", "mime_type", "text"),
    [
        ("Blåbär\r\n".encode(), "text/plain", "Blåbär\n"),
        (b"\xef\xbb\xbfa", "", "a"),
        ("Blåbär".encode("utf-16"), "", "Blåbär"),
        ("Blåbär".encode("utf-16-be"), "text/plain; charset=UTF-16BE", "Blåbär"),
        ("Blåbär".encode("utf-16-le"), 'text/plain; charset="utf-16le"', "Blåbär"),
        ("Blåbär".encode("utf-32"), "text/plain", "Blåbär"),
        (b"caf\xe9 \x80", "text/plain; charset=iso-8859-1", "café €"),
        ('{"a": "ö"}'.encode(), "application/json", '{"a": "ö"}'),
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>ö</a>'.encode("latin-1"), "application/xml", None),
    ],
)
def test_a_text_is_decoded_by_its_mark_or_its_declared_charset(body: bytes, mime_type: str, text: str | None) -> None:
    found = read(body, mime_type)
    assert found.text == (text or body.decode("latin-1"))
    assert not found.has_headings


@pytest.mark.parametrize(
    ("mime_type", "name", "beginning", "recognised"),
    [
        ("Text/Markdown; charset=utf-8", "", b"# A", "text/markdown"),
        ("", "notes.MD", b"# A", "text/markdown"),
        ("application/octet-stream", "a.b/table.tsv", b"a\tb", "text/tab-separated-values"),
        ("application/vnd.ms-excel", "table.csv", b"a,b", "text/csv"),
        ("", "", b" <!DOCTYPE html><p>a", "text/html"),
        ("", "", b"plain", "text/plain"),
        ("application/ld+json", "", b"{}", "application/ld+json"),
    ],
)
def test_a_type_is_found_by_declaration_then_name_then_content(
    mime_type: str, name: str, beginning: bytes, recognised: str
) -> None:
    assert read(beginning, mime_type, name).mime_type == recognised


PAGE = b"<!DOCTYPE html><h1>Terns</h1><p>They dive."


@pytest.mark.parametrize(
    ("mime_type", "name", "body", "recognised", "text"),
    [
        ("text/plain", "a.txt", pdf_with("Terns"), PDF, "Terns"),
        ("", "a.txt", pdf_with("Terns"), PDF, "Terns"),
        ("text/html", "", b"\r\n" + pdf_with("Terns"), PDF, "Terns"),
        (DOCX, "a.docx", pdf_with("Terns"), PDF, "Terns"),
        (PDF, "a.pdf", docx_with(paragraph("Terns")), DOCX, "Terns"),
        ("text/csv", "a.csv", docx_with(paragraph("Terns")), DOCX, "Terns"),
        ("text/markdown", "", PAGE, "text/html", "# Terns\n\nThey dive."),
        ("", "a.md", PAGE, "text/html", "# Terns\n\nThey dive."),
        ("text/plain", "a.txt", PAGE, "text/html", "# Terns\n\nThey dive."),
        ("", "a.php", PAGE, "text/plain", PAGE.decode()),
        ("text/plain", "", PAGE, "text/plain", PAGE.decode()),
        ("", "a.txt", b"Write %PDF-1 first", "text/plain", "Write %PDF-1 first"),
    ],
)
def test_the_content_decides_where_a_name_or_a_declaration_is_wrong(
    mime_type: str, name: str, body: bytes, recognised: str, text: str
) -> None:
    found = read(body, mime_type, name)
    assert (found.mime_type, found.text.strip()) == (recognised, text)


def test_each_row_of_a_table_is_a_paragraph_that_names_its_columns() -> None:
    found = read(b'\nname;weight\n"Arctic;\nTern";"100 g"\n\nKnot;;extra\n', "text/csv")
    assert found.text == "name: Arctic; Tern\nweight: 100 g\n\nname: Knot\ncolumn 3: extra"
    assert read(b"a\tb,c\n1\t2\n", "text/tab-separated-values").text == "a: 1\nb,c: 2"


def test_html_becomes_lines_with_headings_without_markup_scripts_or_styles() -> None:
    page = """<!doctype html><html><head><title>Shore</title><style>p {}</style><script>if (a < b) "</p>"</script>
    <body><h1>Shore <em>birds</em></h1><p>Terns&nbsp;dive &amp; fish.<br>All day.<div hidden></div><svg><text>x</svg>
    <ul><li>Tern<li>Knot</ul><h3>Weights</h3><table><tr><th>Bird<th>Weight<tr><td><p>Tern</p><td>100 g</table>
    <pre># one\n  two</pre>end"""
    found = read(page.encode(), "text/html")
    assert found.has_headings
    assert found.text.split("\n") == [
        *(
            "Shore",
            "",
            "# Shore birds",
            "",
            "Terns dive & fish.",
            "All day.",
            "",
            "- Tern",
            "- Knot",
            "",
            "### Weights",
        ),
        *("", "Bird | Weight", "Tern | 100 g", "", "    # one", "      two", "", "end"),
    ]


@pytest.mark.parametrize(
    ("page", "mime_type"),
    [
        ('<meta charset="windows-1252"><p>caf\xe9'.encode("latin-1"), "text/html"),
        ("<p>café".encode("utf-16"), "text/html"),
        ("<p>café".encode("shift_jis", "ignore") + b"\xe9", "text/html; charset=latin1"),
        (b"<p>caf\xe9", "text/html"),
        ("<meta charset=utf-16><p>café".encode(), "text/html"),
    ],
)
def test_html_is_decoded_as_browsers_do(page: bytes, mime_type: str) -> None:
    assert read(page, mime_type).text == "café"


def test_html_without_end_tags_and_deeply_nested_is_read() -> None:
    assert read(b"<p>a" * 1000, "text/html").text == "\n\n".join(["a"] * 1000)
    assert read(b"<div>" * 100_000 + b"deep", "text/html").text == "deep"


def test_the_pages_of_a_pdf_become_paragraphs() -> None:
    found = read(pdf_with("Terns (Sterna) dive.", "Blåbär."), PDF)
    assert (found.text, found.has_headings, found.mime_type) == ("Terns (Sterna) dive.\n\nBlåbär.", False, PDF)
    assert read(pdf_with("Terns"), "application/octet-stream").mime_type == PDF


def test_a_docx_becomes_lines_with_headings_items_rows_and_notes() -> None:
    styles = f"""<w:styles {WORDS}><w:style w:styleId="Rubrik1"><w:name w:val="heading 1"/></w:style>
    <w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="Rubrik1"/></w:style></w:styles>"""
    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("Tern", "100 g"))
    item = f"<w:p><w:pPr><w:numPr/></w:pPr>{paragraph('Knot')[5:]}"
    dropped = f"<w:del>{paragraph('gone')}</w:del>"
    notes = f"<w:footnotes {WORDS}>{paragraph('A note.')}</w:footnotes>"
    body = docx_with(
        *(paragraph("Birds", "Rubrik1"), paragraph("Terns & knots"), paragraph("Shore", "Own"), item, dropped),
        f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>",
        styles=styles,
        footnotes=notes,
    )
    for mime_type, name in ((DOCX, ""), ("", "birds.docx"), ("", "")):
        found = read(body, mime_type, name)
        assert found.text == "# Birds\n\nTerns & knots\n\n# Shore\n\n- Knot\n\nTern | 100 g\n\nA note."
        assert (found.has_headings, found.mime_type) == (True, DOCX)


def test_long_runs_of_blanks_and_empty_lines_are_shortened() -> None:
    assert len(read(b"a" + b" " * 50_000 + b"b" + b"\n" * 50_000 + b"c").text) < 220
