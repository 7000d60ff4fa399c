"""A request that offers an upgrade is answered in HTTP/1.1, and its body is never taken for another request.

Covers: functions/local
"""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.server.served import Served

PATIENCE_S = 5.0
BETWEEN_PARTS_S = 0.2
CONFIG = {"agent_config": {"model": "offline", "instructions": "Be brief."}}


def exchanged(url: str, *parts: bytes) -> bytes:
    """Send the parts one by one over a connection of their own; return all that is answered."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(BETWEEN_PARTS_S)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer


def posted(body: bytes, offer: bytes = b"h2c") -> bytes:
    return (
        b"POST /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: %b\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (offer, len(body))
    )


@pytest.mark.parametrize("is_in_parts", [False, True])
@pytest.mark.parametrize("offer", [b"h2c", b"websocket"])
def test_the_body_of_a_request_that_offers_an_upgrade_is_read(
    offer: bytes, is_in_parts: bool, served: Served, model: ModelServer
) -> None:
    server, client = served()
    body = json.dumps(CONFIG).encode()
    head = posted(body, offer)
    parts = (head, body[:20], body[20:]) if is_in_parts else (head + body,)
    answer = exchanged(server.url, *parts)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    agent_id = json.loads(answer.partition(b"\r\n\r\n")[2])["agent_id"]
    assert client.get(f"/v1/agents/{agent_id}")["agent_config"]["instructions"] == "Be brief."


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_a_body_in_the_form_of_a_request_is_not_served_as_one(
    is_in_parts: bool, served: Served, model: ModelServer
) -> None:
    server, client = served()
    agent_id = client.post("/v1/agents", CONFIG).json()["agent_id"]
    inner = b"DELETE /v1/agents/%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % agent_id.encode()
    head = posted(inner)
    answer = exchanged(server.url, *((head, inner) if is_in_parts else (head + inner,)))
    assert (answer.count(b"HTTP/1.1 "), answer[:13]) == (1, b"HTTP/1.1 400 ")
    assert client.get(f"/v1/agents/{agent_id}")["agent_id"] == agent_id
