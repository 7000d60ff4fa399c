"""Records of earlier versions are read, continued and deleted by this one, over both stores.

Covers: store/layout/keys, store/layout/frames, store/layout/oversize, store/sessions/session_records
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.golden.scenarios.turns import answer_to
from tests.support.old_records.loaded import PATTERNS, Loaded, loaded, private_of
from tests.support.old_records.rows import (
    FORMATS,
    STORES,
    Answer,
    attributes_of,
    body_of,
    fixture,
    key_of,
    kinds_of,
)
from tests.support.old_records.scene import CHAT, KEY, SECRET, SETTINGS, read
from turnstone.store.layout import keys

VERSIONS = tuple(sorted(path.name for path in FORMATS.iterdir()))
OF_THE_SERVER = ("/v1/toolgroups", "/v1/models")
LEASE_S, DAY_S = 3_600, 86_400
KEPT = {"api_key", "api_key_list", "idempotency", "usage", "sweep", "directory"}


@pytest.fixture(params=product(VERSIONS, STORES), ids="-".join)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Loaded]:
    with loaded(*request.param, tmp_path) as made:
        yield made


@pytest.mark.parametrize(("version", "store"), [*product(VERSIONS, STORES)])
def test_every_kind_of_key_and_every_state_is_in_the_fixture(version: str, store: str) -> None:
    functions = {name for name, _ in inspect.getmembers(keys, inspect.isfunction) if name.endswith("_key")}
    assert {name.removesuffix("_key") for name in functions} == PATTERNS.keys()
    held = fixture(version, store)
    found = kinds_of(held.records, PATTERNS)
    assert found.keys() == PATTERNS.keys()
    turns = {attributes_of(record)["status"] for record in found["turn"]}
    assert turns == {"in_progress", "awaiting_input", "completed", "failed", "expired", "cancelled"}
    assert {attributes_of(record)["status"] for record in found["session"]} == {"idle", "running", "awaiting"}
    assert {attributes_of(record).get("codec") for record in held.records} == {None, "zlib", "blob", "zlib+blob"}
    jobs = {json.loads(body_of(record))["kind"] for record in found["job"]}
    assert jobs == {"clean_session", "clean_agent", "end_session", "clean_completion"}
    assert {record["pk"].partition("|")[2] for record in found["registered"]} == {"models", "shields", "toolgroups"}
    assert any("token" in attributes_of(record) for record in found["turn"])
    kept = {name for record in found["turn"] for name in private_of(record, held)}
    assert kept >= {"v", "pending_calls", "overrides", "input_shields", "traces", "failure", "summary", "earlier_ends"}


def test_everything_is_read_as_by_the_version_that_wrote_it(old: Loaded) -> None:
    old.world.serve(model_url=old.world.model(old.model), **SETTINGS)
    differing = [
        (before, now) for before in old.held.answers if not is_contained(before, now := read(old.world, before.path))
    ]
    assert len(old.held.answers) > 80
    assert differing == []


def is_contained(before: Answer, now: Answer) -> bool:
    """Return whether the answer is the same; lists of the server's own objects may have further ones."""
    if before.path not in OF_THE_SERVER:
        return before == now
    listed = [json.loads(answer.body)["data"] for answer in (before, now)]
    return before.status == now.status and all(entry in listed[1] for entry in listed[0])


def test_a_paused_turn_is_resumed_and_its_session_goes_on(old: Loaded) -> None:
    world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
    path = f"{names['paused']}/turn/{names['paused_turn']}"
    body = {**answer_to(world.get(path)), "stream": False}
    turn = world.post(f"{path}/resume", body)
    assert (turn["output_message"]["content"], turn["output_message"]["stop_reason"]) == ("It is rain.", "end_of_turn")
    assert len(turn["steps"]) == 3
    assert world.turn(names["paused"], "hello").json()["output_message"]["content"] == "Hello."
    assert [bool(each["completed_at"]) for each in world.get(names["paused"])["turns"]] == [True, True]


def test_an_interrupted_turn_is_taken_over_from_its_stored_steps(old: Loaded) -> None:
    world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
    path = f"{names['running']}/turn/{names['running_turn']}"
    before = world.get(path)
    _, _, _, agent_id, _, session_id = names["running"].split("/")
    world.pass_time(LEASE_S + 60)
    world.process.take_over(agent_id, session_id, names["running_turn"])
    turn = world.get(path)
    assert turn["output_message"]["content"] == "It is noon."
    assert turn["steps"][:2] == before["steps"]
    assert [step["step_type"] for step in turn["steps"]] == ["inference", "tool_execution", "inference"]


def test_each_kind_of_ended_session_goes_on(old: Loaded) -> None:
    world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
    for name in ("ended", "reopened", "summed_up", "superseded", "forgetful"):
        answer = world.turn(names[name], "hello")
        assert (answer.status, answer.json()["output_message"]["content"]) == (200, "Hello."), name
    turn_id = world.get(names["reopened"])["turns"][-1]["turn_id"]
    assert world.send("GET", f"{names['reopened']}/turn/{turn_id}/events").status == 200


def test_a_repeated_request_finds_its_answer(old: Loaded) -> None:
    world = old.world.serve(model_url=old.world.model(old.model))
    agents = len(world.get("/v1/agents")["data"])
    agent = {"agent_config": {"model": "stub-llm", "instructions": "Be brief.", "name": "once"}}
    made = world.send("POST", "/v1/agents", agent, idempotency_key=KEY)
    assert made.status == 200
    assert len(world.get("/v1/agents")["data"]) == agents


def test_keys_and_secrets_are_still_good(old: Loaded) -> None:
    world = old.world.serve(model_url=old.world.model(old.model), auth="api_keys")
    world.token("ann", old.held.names["ann"])
    assert world.send("GET", "/v1/agents", sender="ann").status == 200
    assert world.send("GET", "/v1/agents").status == 401
    stored = world.process._server.core.agents
    agent = stored._store.get("local", old.held.names["agent"]).agent  # type: ignore[attr-defined]
    assert agent.agent_config.tools[0].api_key.get_secret_value() == SECRET


def test_everything_is_deleted_and_nothing_is_left_behind(old: Loaded) -> None:
    world = old.world.serve(model_url=old.world.model(old.model))
    for agent in world.get("/v1/agents")["data"]:
        assert world.send("DELETE", f"/v1/agents/{agent['agent_id']}").status == 204
    for completion in world.get(CHAT)["data"]:
        assert world.send("DELETE", f"{CHAT}/{completion['id']}").status == 200
    for path in ("/v1/models/mine", "/v1/toolgroups/mcp::sums", "/v1/shields/words"):
        assert world.send("DELETE", path).status == 200, path
    for _ in range(40):
        world.work()
        world.pass_time(DAY_S)
    world.work()
    left = kinds_of(old.records(), PATTERNS)
    assert left.keys() == KEPT
    before = kinds_of(old.held.records, PATTERNS)
    for kind in KEPT - {"directory", "idempotency"}:
        assert [key_of(record) for record in left[kind]] == [key_of(record) for record in before[kind]], kind
    assert all("|session:" not in record["pk"] for record in left["idempotency"])
    assert old.payloads() == {}
