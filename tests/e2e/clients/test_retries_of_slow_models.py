"""Slow models and unmodified clients with their default timeouts and retries: each turn runs once.

Covers: services/turns/joining
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import VERSIONS, ClientScript, ScriptReport
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ModelProcess, ServerProcess

MODES = ("streaming", "whole")
TIMEOUT_S = 240
READ_EVERY_S = 5


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_long_turns_run_once_though_the_clients_time_out_and_retry(tmp_path: Path) -> None:
    # One test, because the conversations run at the same time: together they take two minutes.
    with (
        ExitStack() as stack,
        ModelProcess() as model,
        ServerProcess(tmp_path, model_url=model.url) as server,
        PlainClient(server.url) as client,
    ):
        silent, streaming = {}, {}
        for version in VERSIONS:
            for mode in MODES:
                script = ClientScript(version, "long_turn", server.url, "slow-90", mode, timeout_s=TIMEOUT_S)
                silent[version, mode] = stack.enter_context(script)
            script = ClientScript(version, "long_turn", server.url, "stream-120", "streaming", timeout_s=TIMEOUT_S)
            streaming[version] = stack.enter_context(script)
        scripts = [*silent.values(), *streaming.values()]
        sessions = [script.next_report()["session"] for script in scripts]
        while any(script.is_running for script in scripts):
            read_all(client, sessions)
            time.sleep(READ_EVERY_S)
        for script in silent.values():
            expect_one_turn_after_a_silence(script.whole_report())
        for script in streaming.values():
            expect_one_turn_of_two_minutes(script.whole_report())
        assert model.calls == len(scripts)


def expect_one_turn_after_a_silence(seen: ScriptReport) -> None:
    assert (seen["timeout_s"], seen["max_retries"]) == (60, 2), "these are not the client's defaults"
    assert 90 <= seen["took_s"] < 130
    assert (seen["turn"]["content"], seen["turn"]["is_over"]) == ("ok", True)
    assert seen["turns"] == [seen["turn"]]


def expect_one_turn_of_two_minutes(seen: ScriptReport) -> None:
    assert seen["took_s"] >= 120
    assert seen["turn"]["content"].split() == [f"word{number}" for number in range(480)]
    assert (seen["turn"]["steps"], seen["turn"]["is_over"]) == (["inference"], True)
    assert seen["turns"] == [seen["turn"]]


@pytest.mark.timeout(60)
def test_a_turn_keeps_a_short_lease_while_its_model_streams(tmp_path: Path) -> None:
    with (
        ModelServer() as model,
        ServerProcess(tmp_path, model_url=model.url, lease_seconds=1) as server,
        PlainClient(server.url) as client,
        PlainClient(server.url) as observer,
    ):
        session = client.open_session("stream-5")
        received = []
        with client.streaming(f"{session}/turn", turn_body("a long story")) as events:
            for event in events:
                received.append(event)
                read_all(observer, [session])
        turns = client.get(session)["turns"]
    assert received[-1]["event_type"] == "turn_complete"
    turn = received[-1]["turn"]
    assert turn["output_message"]["content"].split() == [f"word{number}" for number in range(20)]
    assert len(turn["steps"]) == 1
    assert turns == [turn]
    assert len(model.requests) == 1


def read_all(client: PlainClient, sessions: Iterable[str]) -> None:
    """Read the sessions: reading makes the server take over a turn whose lease has expired."""
    for session in sessions:
        assert len(client.get(session)["turns"]) <= 1
