"""The header Prefer is parsed by the rules of RFC 7240.

Covers: http/preferences, http/server/bodies
"""

import time

import pytest

from turnstone.http.preferences import prefers_async
from turnstone.http.server.bodies import headers_by_name


@pytest.mark.parametrize(
    "sent",
    [
        "respond-async",
        "Respond-Async",
        " respond-async ",
        'respond-async=""',
        "respond-async=",
        "respond-async; wait=5",
        "respond-async;foo; bar=1",
        "return=minimal, respond-async",
        "respond-async, wait=10",
        "wait=10,respond-async",
        ", ,respond-async",
        'foo="a, b; c", respond-async',
        'foo="a \\" , b", respond-async',
        "respond-async, respond-async=no",
    ],
)
def test_a_preference_for_an_early_answer_is_found(sent: str) -> None:
    assert prefers_async({"prefer": sent})


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "wait=10",
        "respond-asynchronously",
        "x-respond-async",
        "respond-async=no",
        "respond-async=no, respond-async",
        'foo="a, respond-async"',
        'foo="a \\", respond-async"',
        "foo; respond-async",
        'foo="unclosed, respond-async',
    ],
)
def test_no_other_text_is_taken_for_it(sent: str) -> None:
    assert not prefers_async({"prefer": sent})
    assert not prefers_async({})


def test_all_lines_of_the_header_count() -> None:
    sent = [(b"prefer", b"wait=10"), (b"accept", b"a"), (b"prefer", b"respond-async"), (b"accept", b"b")]
    headers = headers_by_name(sent)
    assert (headers["prefer"], headers["accept"]) == ("wait=10,respond-async", "b")
    assert prefers_async(headers)


@pytest.mark.parametrize("piece", ['"', '"\\', ";", ",", "; ;", 'a="', "\\"])
def test_a_long_header_takes_little_time(piece: str) -> None:
    began_at = time.process_time()
    prefers_async({"prefer": piece * 50_000})
    assert time.process_time() - began_at < 2
