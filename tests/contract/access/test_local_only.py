"""A server without authentication answers programs of its machine, and no page of another site.

Covers: http/server
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server.asgi_client import Raw, Served, served

BODY = b'{"agent_config": {"model": "offline", "instructions": ""}}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("local-only")
    with served(folder) as running:
        yield running


@pytest.mark.parametrize(
    "header",
    [
        (b"origin", b"https://evil.example"),
        (b"origin", b"null"),
        (b"origin", b"http://127.0.0.1.evil.example"),
        (b"origin", b"http://[broken"),
        (b"host", b"evil.example:8321"),
        (b"host", b"localhost.evil.example"),
        (b"host", b"127.0.0.1@evil.example"),
    ],
)
def test_a_page_of_another_site_is_refused_and_changes_nothing(server: Served, header: tuple[bytes, bytes]) -> None:
    before = server.marks()
    answered = server.client.send(Raw("POST", b"/v1/agents", (BODY,), (header,)))
    assert (answered.status, before) == (403, server.marks())
    assert "no authentication" in answered.body.decode()
    assert "TURNSTONE_ALLOW_OPEN" in answered.body.decode()


@pytest.mark.parametrize(
    "header",
    [
        (b"origin", b"http://localhost:5173"),
        (b"origin", b"http://127.0.0.1:8321"),
        (b"host", b"localhost:8321"),
        (b"host", b"[::1]:8321"),
        (b"content-type", b"application/x-www-form-urlencoded"),
    ],
)
def test_a_program_or_page_of_this_machine_is_answered(server: Served, header: tuple[bytes, bytes]) -> None:
    assert server.client.send(Raw("POST", b"/v1/agents", (BODY,), (header,))).status == 200
