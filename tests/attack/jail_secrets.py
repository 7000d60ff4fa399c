"""Hostile code in a real server's jail: it hunts for the server's folders, its process and the machine's name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import PlainClient
from tests.support.server.servers import ROOT, ServerProcess
from tests.support.tools.hunting_code import finds_in, hunt

CONFIG = '[tools.code_interpreter]\nruns = "here"\n'
OPENING, CLOSING = "completed\n[stdout]\n", "\n[/stdout]"


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Hunt once; both sizes are the same."""
    (config := folder / "turnstone.toml").write_text(CONFIG)
    with ServerProcess(folder, config=config) as server, PlainClient(server.url) as client:
        texts = {"data folder": str(server.data_dir), "temporary folder": str(folder), "package": str(ROOT / "shared")}
        texts["machine's name"] = f" {socket.gethostname()} "
        numbers = {"process id": server.pid}
        body = {"tool_name": "code_interpreter", "kwargs": {"code": hunt(texts, numbers)}}
        content = client.post("/v1/tool-runtime/invoke", body).json()["content"]
    assert content.startswith(OPENING), content
    found = finds_in(content.removeprefix(OPENING).partition(CLOSING)[0], numbers)
    yield Finding(
        "code that hunts through frames, objects, files and memory", ", ".join(found) or "nothing", "nothing", not found
    )


ATTACK = Attack("the jail's secrets", run)
