"""The overhead of a call of an MCP tool: packing, sending, the server's own work, unpacking."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Figure, of_times
from tests.fakes.tools.mcp_server import McpServers
from tests.support.tools.mcp_client import call, loopback_connections, toolbox

BAR_MS = 15
TIMES = 150
WARM_UP = 20
WORKS_S = 0.02


def mcp_calls(_: Path) -> Iterator[Figure]:
    """Yield it for a tool that does nothing, and for one that takes a while, once the connection is there."""
    with McpServers() as servers:
        server = servers.start()
        with loopback_connections(server.port) as connections:
            box = toolbox(server.url(), connections)
            for behaviour, name, works_s in (("does nothing", "nothing", 0.0), ("takes 20 ms", "slow", WORKS_S)):
                arguments: dict[str, Any] = {"seconds": works_s} if works_s else {}
                took_s = []
                for _time in range(WARM_UP + TIMES):
                    began_s = time.monotonic()
                    call(box, name, **arguments)
                    took_s.append(time.monotonic() - began_s - works_s)
                yield of_times(f"MCP: added to a tool that {behaviour}", took_s[WARM_UP:], bar_ms=BAR_MS)
