"""Requests to webhooks end in time, follow no redirect, and reach no private host that the operator does not allow.

Covers: adapters/webhooks/guarded_sender
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from tests.fakes.web.web_server import HOST, WebAnswer, WebRequest, WebServer
from turnstone.adapters.webhooks.guarded_sender import GuardedSender
from turnstone.domain.errors import FetchFailed, FetchRefused

HEADERS = {"content-type": "application/json", "webhook-id": "evt_1"}
SOON_S = 0.3


@contextmanager
def receiver(answer: WebAnswer, waits_for: Event | None = None) -> Iterator[WebServer]:
    def answered(_: WebRequest) -> WebAnswer:
        if waits_for is not None:
            waits_for.wait(20)
        return answer

    with WebServer(answered) as server:
        try:
            yield server
        finally:
            if waits_for is not None:
                waits_for.set()


def sender_to(*servers: WebServer, timeout_s: float = 10.0) -> GuardedSender:
    return GuardedSender([(HOST, server.port) for server in servers], timeout_s)


@pytest.mark.parametrize("status", [200, 204, 404, 410, 500, 503])
def test_the_status_of_the_answer_is_returned(status: int) -> None:
    with receiver(WebAnswer(status, b"" if status == 204 else b"anything", "text/html")) as server:
        assert sender_to(server).send(f"{server.url}/hook?a=1", HEADERS, b"{}") == status
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/hook?a=1", b"{}")
    assert HEADERS.items() <= request.headers.items()


def test_a_receiver_that_hangs_is_left_in_time() -> None:
    with receiver(WebAnswer(), Event()) as server:
        began = time.monotonic()
        with pytest.raises(FetchFailed, match=server.url):
            sender_to(server, timeout_s=SOON_S).send(server.url, HEADERS, b"{}")
        assert SOON_S <= time.monotonic() - began < 10


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with receiver(WebAnswer()) as other:
        moved = WebAnswer(status, headers={"Location": f"{other.url}/other"})
        with receiver(moved) as server, pytest.raises(FetchRefused, match="redirect"):
            sender_to(server, other).send(server.url, HEADERS, b"{}")
    assert len(server.requests) == 1
    assert not other.requests


@pytest.mark.parametrize(
    "url", ["http://public.example/hook", "https://10.0.0.1/hook", "https://169.254.169.254/", "ftp://x.example/"]
)
def test_what_is_not_public_or_not_https_is_never_requested(url: str) -> None:
    with pytest.raises(FetchRefused):
        GuardedSender([]).send(url, HEADERS, b"{}")


@pytest.mark.parametrize(
    "url", ["http://public.example/hook", "ftp://x.example/", "https://", "https://a:b@x.example/"]
)
def test_the_text_of_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(FetchRefused):
        GuardedSender([]).check(url)


def test_a_private_receiver_gets_no_request_unless_it_is_allowed() -> None:
    with receiver(WebAnswer()) as server:
        with pytest.raises(FetchRefused):
            GuardedSender([]).send(server.url, HEADERS, b"{}")
        assert not server.requests


def test_a_stop_ends_a_request_under_way() -> None:
    with receiver(WebAnswer(), Event()) as server:
        sender = sender_to(server, timeout_s=15)
        failures: list[FetchFailed] = []

        def send() -> None:
            try:
                sender.send(server.url, HEADERS, b"{}")
            except FetchFailed as failure:
                failures.append(failure)

        sending = Thread(target=send)
        sending.start()
        while not server.requests:
            time.sleep(0.01)
        assert not sender.is_stopped
        sender.stop()
        sending.join(10)
        assert not sending.is_alive()
    assert sender.is_stopped
    assert len(failures) == 1
