"""Forms with a file are read in any pieces, with little memory, and refused with the reason.

Covers: http/forms, http/server/forms, http/server/bodies, http/server/endpoint
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from tests.support.cases import generated
from tests.support.clients.forms import BOUNDARY, FORM_TYPE, SentPart, cut_at, field, file, form, form_of
from turnstone.domain.errors import BodyTooLarge, InvalidRequest, StoreUnavailable
from turnstone.http.forms import SentForm
from turnstone.http.request import InvalidBody
from turnstone.http.server import forms
from turnstone.http.server.bodies import IncomingBody, read_body
from turnstone.http.server.forms import AROUND_FILE_BYTES, MOST_FIELD_BYTES, MOST_FIELDS, FormRule, read_form

RULE = FormRule("file", 1_000_000, "TURNSTONE_MAX_FILE_BYTES")
FIELDS = {"purpose": "assistants", "expires_after[anchor]": "created_at"}


async def at_once(call: Callable[..., Any], *arguments: Any) -> Any:
    return call(*arguments)


def read(
    pieces: Iterable[bytes], content_type: str = FORM_TYPE, rule: FormRule = RULE, *, hangs_up: bool = False
) -> SentForm:
    """Return the form of a body that arrives in these pieces."""
    body = incoming(pieces, hangs_up=hangs_up, **{"content-type": content_type})
    return asyncio.run(read_form(body, rule, at_once))


def incoming(pieces: Iterable[bytes], *, hangs_up: bool = False, **headers: str) -> IncomingBody:
    arriving = iter(pieces)

    async def receive() -> dict[str, Any]:
        piece = next(arriving, None)
        if piece is None and hangs_up:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    return IncomingBody(receive, headers)


def content_of(sent: SentForm) -> bytes:
    content = b"".join(sent.file.parts())
    assert len(content) == sent.file.size_bytes
    sent.close()
    return content


ALIKE = (
    b"\r",
    b"\n",
    b"-",
    b"--",
    b"\r\n",
    f"\r\n--{BOUNDARY[:5]}".encode(),
    f"--{BOUNDARY}".encode(),
    b"x",
    b"\0\xff",
)


@generated(200)
@given(st.lists(st.sampled_from(ALIKE), max_size=12), st.lists(st.integers(1, 40), max_size=12), st.booleans())
def test_any_content_arrives_unchanged_in_any_pieces(content: list[bytes], sizes: list[int], is_last: bool) -> None:
    expected = b"".join(content)
    assume(f"\r\n--{BOUNDARY}".encode() not in b"\r\n" + expected)  # a client chooses its boundary so
    parts = [field(*each) for each in FIELDS.items()]
    parts.insert(len(parts) if is_last else 0, file(expected))
    sent = read(cut_at(form(*parts), sizes))
    assert sent.fields == FIELDS
    assert (sent.file.name, sent.file.media_type) == ("a.txt", "text/plain")
    assert content_of(sent) == expected


def test_a_file_beyond_memory_is_read_again_from_its_start() -> None:
    content = Random(1).randbytes(900_000)
    sent = read(cut_at(form_of(FIELDS, content), [300_000] * 3))
    assert b"".join(sent.file.parts()) == content
    assert content_of(sent) == content


def test_names_are_read_as_sent() -> None:
    head = 'Content-Disposition: form-data; name=file; filename="r\u00e9sum\u00e9 \\"1\\".pdf"'
    sent = read([form(SentPart(head, b"x"))])
    assert (sent.file.name, sent.file.media_type) == ('r\u00e9sum\u00e9 "1".pdf', "")
    unnamed = read([form(field("file", "x"))])
    assert (unnamed.file.name, content_of(unnamed)) == (None, b"x")
    sent.close()


def test_the_digest_depends_on_contents_and_fields_and_not_on_the_boundary() -> None:
    def digest(*parts: SentPart, boundary: str = BOUNDARY) -> bytes:
        sent = read([form(*parts, boundary=boundary)], f"multipart/form-data; boundary={boundary}")
        sent.close()
        return sent.digest

    first = digest(field("a", "b"), file(b"x"))
    assert digest(file(b"x"), field("a", "b"), boundary="another") == first
    others = [
        digest(field("a", "c"), file(b"x")),
        digest(field("ab", ""), file(b"x")),
        digest(field("a", "b"), file(b"y")),
        digest(field("a", "b"), file(b"x", "b.txt")),
        digest(field("a", "b"), file(b"x", media_type="text/html")),
    ]
    assert len({first, *others}) == 6


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "ends before its last boundary"),
        (form_of(FIELDS, b"x")[:-4], "ends before its last boundary"),
        (form_of(FIELDS, b"x")[:40], "ends before its last boundary"),
        (form(file(b"x"), boundary="other"), "not valid multipart/form-data"),
        (b'{"purpose": "assistants"}', "not valid multipart/form-data"),
        (form(SentPart("Content-Disposition: form-data", b"x")), "no Content-Disposition of form-data with a name"),
        (form(SentPart("Content-Type: text/plain", b"x")), "no Content-Disposition of form-data with a name"),
        (form(SentPart("no header", b"x")), "not valid multipart/form-data"),
        (form(SentPart("A: " + "b" * 100_000, b"x")), "not valid multipart/form-data"),
        (form(SentPart("\r\n".join(["A: b"] * 100), b"x")), "not valid multipart/form-data"),
        (form(*[field(f"f{number}", "") for number in range(MOST_FIELDS + 1)]), f"more than {MOST_FIELDS} fields"),
        (form(field("a", "b" * (MOST_FIELD_BYTES + 1)), file(b"")), f"a: must have at most {MOST_FIELD_BYTES} bytes"),
        (form(field("a", "b"), field("a", "c"), file(b"")), "a: must be sent once"),
        (form(file(b"x"), file(b"y")), "file: must be sent once"),
        (form(field("a", b"\xff"), file(b"x")), "a: must be UTF-8"),
        (
            form(SentPart(f"{file(b'').head}\r\nContent-Transfer-Encoding: base64", b"eA==")),
            "file: must be sent without",
        ),
    ],
)
def test_a_body_that_is_no_form_is_refused_with_the_reason(body: bytes, problem: str) -> None:
    for sizes in ([], [1] * len(body[:3_000])):
        with pytest.raises(InvalidRequest, match=problem):
            read(cut_at(body, sizes))


def test_a_form_without_its_file_is_refused_by_the_field() -> None:
    with pytest.raises(InvalidBody) as refused:
        read([form(field("purpose", "assistants"))])
    assert refused.value.problems == [{"loc": ("file",), "msg": "Field required", "type": "missing"}]
    with pytest.raises(InvalidBody):
        read([b"--" + BOUNDARY.encode() + b"--\r\n"])


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=a-boundary",
        f"multipart/form-data; boundary={'b' * 300}",
        "multipart/form-data; boundary=\xff\xfe",
    ],
)
def test_a_wrong_content_type_is_refused(content_type: str) -> None:
    with pytest.raises(InvalidRequest):
        read([form_of(FIELDS, b"x")], content_type)


def endless(around: bytes = b"") -> Iterator[bytes]:
    yield form(file(around))[: -len(BOUNDARY) - 6]
    while True:
        yield b"x" * 10_000


def test_an_endless_body_is_refused_after_a_while() -> None:
    read_bytes: list[int] = []

    def counted() -> Iterator[bytes]:
        for piece in endless():
            read_bytes.append(len(piece))
            yield piece

    small = FormRule("file", 50_000, "TURNSTONE_MAX_FILE_BYTES")
    with pytest.raises(BodyTooLarge, match=r"limit of 50000 bytes \(TURNSTONE_MAX_FILE_BYTES\)"):
        read(counted(), rule=small)
    assert sum(read_bytes) < 4 * (50_000 + AROUND_FILE_BYTES) + 20_000
    with pytest.raises(BodyTooLarge, match=r"limit of 50000 bytes$"):
        read([form_of({}, b"x" * 50_001)], rule=FormRule("file", 50_000, ""))
    content_of(read([form_of({}, b"x" * 50_000)], rule=small))


def test_an_endless_end_of_a_body_is_refused() -> None:
    def pieces() -> Iterator[bytes]:
        yield form(file(b"x"))
        while True:
            yield b"x" * 10_000

    with pytest.raises(BodyTooLarge):
        read(pieces(), rule=FormRule("file", 50_000, ""))


@pytest.mark.parametrize("line", [b"a", b"-a", b"\ra"])
def test_many_false_boundaries_are_refused_before_the_rest_arrives(line: bytes) -> None:
    """Each takes the parser's time, and no file may contain the boundary of its form."""
    false = b"\r\n--" + BOUNDARY.encode() + line
    few = read([form_of(FIELDS, false * 50)])
    assert content_of(few) == false * 50
    taken: list[bytes] = []

    def pieces() -> Iterator[bytes]:
        yield form(file(b""))[: -len(BOUNDARY) - 6]
        for _ in range(100):
            taken.append(false * 1_000)
            yield taken[-1]

    with pytest.raises(InvalidRequest, match="lines of the body begin with the boundary"):
        read(pieces())
    assert len(taken) < 30


def test_a_refused_body_is_read_on_only_when_it_is_discarded() -> None:
    """A client that sends everything before it reads then receives the refusal."""
    for most_bytes, left in ((10_000_000, 0), (1_000_000, 10)):
        pieces = iter([b"nonsense", *[b"x" * 100_000] * 20])
        body = incoming(pieces)
        with pytest.raises(InvalidRequest):
            asyncio.run(read_form(body, RULE, at_once))
        assert body.has_more
        asyncio.run(body.discard(most_bytes))
        assert len(list(pieces)) == left


@pytest.mark.parametrize(
    ("headers", "is_taken"), [({"content-length": "1001"}, False), ({"content-length": "x"}, True)]
)
def test_a_stated_length_over_the_limit_is_refused_before_the_first_byte(
    headers: dict[str, str], is_taken: bool
) -> None:
    pieces = iter([b"x" * 1_000])
    whole = asyncio.run(read_body(incoming(pieces, **headers), 1_000))
    assert (whole is not None) == is_taken == (next(pieces, None) is None)


def test_nothing_is_awaited_of_a_client_that_waits_for_its_permission() -> None:
    pieces = iter([b"x"])
    asyncio.run(incoming(pieces, expect="100-continue").discard(1_000))
    assert next(pieces) == b"x"


def test_a_client_that_leaves_ends_the_reading() -> None:
    with pytest.raises(ClientDisconnect):
        read([form_of(FIELDS, b"x")[:50]], hangs_up=True)


def test_nothing_is_left_of_a_body_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    original = forms.SpooledTemporaryFile

    def noted(*arguments: Any) -> Any:
        opened.append(original(*arguments))
        return opened[-1]

    monkeypatch.setattr(forms, "SpooledTemporaryFile", noted)
    body = form_of(FIELDS, b"x")
    for pieces, options in (
        ([body[:-3]], {}),
        ([body[:-3]], {"hangs_up": True}),
        ([form(file(b"x" * 2_000))], {"rule": FormRule("file", 1_000, "")}),
        ([form(file(b"x"), SentPart("nonsense", b""))], {}),
        ([form(file(b"x"))[:-8]], {}),
    ):
        with pytest.raises((InvalidRequest, BodyTooLarge, ClientDisconnect)):
            read(pieces, **options)  # type: ignore[arg-type]
    assert len(opened) == 4  # the client that left had sent too little for a batch
    assert all(each.closed for each in opened)


def test_a_full_disk_is_a_failure_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "IN_MEMORY_BYTES", 1_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
    try:
        with pytest.raises(StoreUnavailable, match="File too large"):
            read(cut_at(form_of(FIELDS, b"x" * 600_000), [270_000]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_large_file_takes_little_memory() -> None:
    piece = b"x" * 65_536

    def body() -> Iterator[bytes]:
        whole = form_of(FIELDS, b"")
        end = whole.rindex(b"\r\n--")
        yield whole[:end]
        for _ in range(320):
            yield piece
        yield whole[end:]

    tracemalloc.start()
    sent = read(body(), rule=FormRule("file", 100_000_000, ""))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent.file.size_bytes == 320 * 65_536
    sent.close()
    assert peak < 5_000_000


def test_the_parser_is_loaded_with_the_first_form_only() -> None:
    program = (
        "import sys; import turnstone.http.server.app; from turnstone.http.server.forms import load_parser\n"
        "assert 'starlette.formparsers' in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith(('python_multipart.', 'multipart.'))]\n"
        "assert load_parser() is load_parser() is sys.modules['python_multipart.multipart']\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
