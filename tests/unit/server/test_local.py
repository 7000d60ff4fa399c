"""The local server: its sockets and its routes.

Covers: functions/local
"""

import socket
from ipaddress import IPv4Address

from functions.local.routes import ROUTES
from functions.local.server import listen


def test_answers_do_not_wait_for_nagles_algorithm() -> None:
    """asyncio turns it off for sockets that name TCP as their protocol, and for no others."""
    with listen(IPv4Address("127.0.0.1"), 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_no_two_routes_serve_the_same_request() -> None:
    served = [(route.method, route.path) for route in ROUTES]
    assert len(set(served)) == len(served)
