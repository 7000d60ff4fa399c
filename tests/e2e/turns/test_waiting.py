"""More users than slots, over real connections: every user that can be served in time is served.

Covers: services/threads/slots
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.benchmarks.crowd import meet
from tests.fakes.models.openai_answers import Pause, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.servers import ServerProcess

SHORT_S = 0.1


def test_three_times_as_many_users_as_slots_are_all_served(tmp_path: Path) -> None:
    with (
        ModelServer(lambda _: (Pause(SHORT_S), *text_answer("ok"))) as model,
        ServerProcess(tmp_path, model_url=model.url, max_running_turns=8) as server,
    ):
        met = asyncio.run(meet(server.port, users=24, seconds=2.0, model="m"))
    assert met.refusals == 0
    assert met.statuses[200] > 24
