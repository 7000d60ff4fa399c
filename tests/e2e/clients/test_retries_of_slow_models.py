"""Slow models and unmodified clients, with the timeouts and retries they come with: each turn runs once.

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
LOOK_EVERY_S = 5


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_long_turns_run_once_though_the_clients_time_out_and_retry(tmp_path: Path) -> None:
    # One test, because the conversations go on at the same time: all of them take two minutes.
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
            look_at(client, sessions)
            time.sleep(LOOK_EVERY_S)
        for script in silent.values():
            expect_one_turn_after_a_silence(script.whole_report())
        for script in streaming.values():
            expect_one_turn_of_two_minutes(script.whole_report())
        assert model.calls == len(scripts)


def expect_one_turn_after_a_silence(told: ScriptReport) -> None:
    assert (told["timeout_s"], told["max_retries"]) == (60, 2), "these are not the client's defaults"
    assert 90 <= told["took_s"] < 130
    assert (told["turn"]["content"], told["turn"]["is_over"]) == ("ok", True)
    assert told["turns"] == [told["turn"]]


def expect_one_turn_of_two_minutes(told: ScriptReport) -> None:
    assert told["took_s"] >= 120
    assert told["turn"]["content"].split() == [f"word{number}" for number in range(480)]
    assert (told["turn"]["steps"], told["turn"]["is_over"]) == (["inference"], True)
    assert told["turns"] == [told["turn"]]


@pytest.mark.timeout(60)
def test_a_turn_keeps_a_short_lease_while_its_model_streams(tmp_path: Path) -> None:
    with (
        ModelServer() as model,
        ServerProcess(tmp_path, model_url=model.url, lease_seconds=1) as server,
        PlainClient(server.url) as client,
        PlainClient(server.url) as observer,
    ):
        session = client.open_session("stream-5")
        heard = []
        with client.streaming(f"{session}/turn", turn_body("a long story")) as events:
            for event in events:
                heard.append(event)
                look_at(observer, [session])
        turns = client.get(session)["turns"]
    assert heard[-1]["event_type"] == "turn_complete"
    turn = heard[-1]["turn"]
    assert turn["output_message"]["content"].split() == [f"word{number}" for number in range(20)]
    assert len(turn["steps"]) == 1
    assert turns == [turn]
    assert len(model.requests) == 1


def look_at(client: PlainClient, sessions: Iterable[str]) -> None:
    """Read the sessions: whoever does that makes the server take over a turn whose lease is over."""
    for session in sessions:
        assert len(client.get(session)["turns"]) <= 1
