"""Heads, trailers and chunk lines without an end, each on one connection, next to an honest client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.attack.raw_http import HEALTH, MEGABYTE, flooded, honest_client, resident_mb, status_of
from tests.support.server.servers import ServerProcess

SMALL_BYTES, FULL_BYTES = 4 * MEGABYTE, 120 * MEGABYTE
MOST_MB = 5.0
MOST_P99_S = 0.5
GET = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
OFFER = b"connection: upgrade\r\nupgrade: h2c\r\n"
LINES = b"some-field: some value of it\r\n"
FLOODS = {
    "header lines": (GET, LINES, [431]),
    "a header value": (GET + b"field: ", b"v", [431]),
    "a request line": (b"GET /", b"x", [431]),
    "header lines after a request": (HEALTH + GET, LINES, [200, 431]),
    "header lines with an offer of an upgrade": (GET + OFFER, LINES, [431]),
    "a chunk's size line": (POST + b"\r\n", b"0", [431]),
    "a chunk's extension": (POST + b"\r\n1;", b"e", [431]),
    "chunks with extensions": (POST + b"\r\n", b"1;an-extension-of-this-chunk=1\r\nx\r\n", [431]),
    "a trailer": (POST + b"\r\n0\r\n", LINES, [431]),
    "a trailer with an offer of an upgrade": (POST + OFFER + b"\r\n0\r\n", LINES, [431]),
}
UNKNOWN_CLIENT = b"x-llamastack-client-version: 9.9.9"


def run(folder: Path, full: bool) -> Iterator[Finding]:
    size_bytes = FULL_BYTES if full else SMALL_BYTES
    with ServerProcess(folder) as server:
        status_of(server.port)
        before_mb = resident_mb(server.pid)
        with honest_client(server.port, server.pid) as honest:
            for what, (first, again, expected) in FLOODS.items():
                statuses, sent_bytes = flooded(server.port, first, again, size_bytes)
                more_mb = max(honest.most_mb, resident_mb(server.pid)) - before_mb
                yield Finding(
                    f"{size_bytes / MEGABYTE:.0f} MB of {what}",
                    f"{statuses} after {sent_bytes / MEGABYTE:.1f} MB, {more_mb:.1f} MB more memory",
                    f"{expected}, at most {MOST_MB:.0f} MB",
                    statuses == expected and more_mb <= MOST_MB,
                )
        measured = f"p99 {honest.p99_s * 1_000:.0f} ms of {len(honest.took_s)}, {honest.failed} failed"
        is_met = honest.p99_s <= MOST_P99_S and honest.failed == 0
        yield Finding("another client meanwhile", measured, f"p99 at most {MOST_P99_S * 1_000:.0f} ms, none", is_met)
        yield _trailer_with_names_of_headers(server.port)


def _trailer_with_names_of_headers(port: int) -> Finding:
    body = b"\r\n2\r\n{}\r\n0\r\n"
    as_header = status_of(port, POST + UNKNOWN_CLIENT + b"\r\n" + body + b"\r\n")
    in_trailer = status_of(port, POST + body + UNKNOWN_CLIENT + b"\r\n\r\n")
    measured = f"{as_header} as a header, {in_trailer} in a trailer"
    return Finding("header in a trailer", measured, "426, 400", (as_header, in_trailer) == (426, 400))


ATTACK = Attack("request heads", run)
