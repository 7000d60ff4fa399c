"""The scene whose records a fixture holds: every kind of record, and turns and sessions in every state."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer as ModelAnswer
from tests.fakes.models.openai_answers import call_answer, text_answer
from tests.golden.models import adding, held
from tests.golden.product import small_records
from tests.golden.scenarios.turns import CALL, WEATHER, answer_to
from tests.golden.world import Hold, World, from_user
from tests.integration.crash_matrix.databases import Database
from tests.support.models.worded_model import answer_by_words
from tests.support.old_records.rows import Answer, Fixture, payloads_in, records_in
from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_runs import ProducedFile
from turnstone.ports.records import AttributeIs, Update
from turnstone.store.cleanup.sweeps import SweepStore
from turnstone.store.files.attachments import AttachmentStore
from turnstone.store.layout.keys import turn_key
from turnstone.store.layout.oversize import OversizeStore

CHAT = "/v1/chat/completions"
WORDS = {"shield_id": "words", "provider_id": "pattern", "params": {"words": ["bomb"]}}
SECRET = "a key of the tool's service"
LARGE = "one text of many words " * 12_000
SETTINGS: Mapping[str, Any] = {"context_tokens": 700, "summaries": True}  # of the server that gives the answers
KEY = "the idempotency key"
LONG = 4_000  # characters of an answer; a longer one is kept as its hash


class Model:
    """A model directed by words, which stops after its tool's answer on a user message for that."""

    def __init__(self) -> None:
        self.hold = Hold()

    def __call__(self, body: dict[str, Any]) -> ModelAnswer:
        last = body["messages"][-1]
        if last.get("content") == "stop after the tool":
            return call_answer(("current_time", '{"timezone": "UTC"}'))
        if last["role"] == "tool" and any(m.get("content") == "stop after the tool" for m in body["messages"]):
            return held(self.hold.items) if not self.hold._opened.is_set() else text_answer("It is noon.")
        return answer_by_words(body)


def played(database: Database, folder: Path, seed: int = 1) -> Fixture:
    """Play the scene and return the contents of the store while one of its turns runs."""
    model = Model()
    names: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch, world_over(database, folder, seed) as world:
        small_records(patch)
        url = world.model(model)
        mcp = world.mcp(adding)
        world.serve(model_url=url, fetch_allow=world.allowed(mcp))
        _ended_turns(world, names)
        _registered(world, mcp)
        _completions(world, names)
        _deleted(world)
        names["ann"] = world.keys[world.key("ann", "acme")]
        world.serve(model_url=url, **SETTINGS)
        summed_up = names["summed_up"] = world.session(enable_session_persistence=True)
        for number in range(5):
            world.turn(summed_up, f"hello {number} " + "and a long word " * 40)
        _waiting_turns(world, names)
        running = names["running"] = world.session(toolgroups=["builtin::clock"], enable_session_persistence=True)
        body = {**from_user("stop after the tool"), "stream": True}
        begun = world.begin("POST", f"{running}/turn", body)
        world.until_held(model.hold)
        _attachment_and_lease(world, names, running)
        _token(world, names)
        names["running_turn"] = world.send("GET", running, settles=False).json()["turns"][-1]["turn_id"]
        answers = tuple(read(world, path) for path in paths_of(world, names))
        left = Fixture(world.clock.now(), names, answers, records_in(database, folder), payloads_in(database, folder))
        model.hold.open()
        world.finish(begun)
    return left


def world_over(database: Database, folder: Path, seed: int) -> World:
    def nothing_left() -> Any:
        return None

    return World(folder, lambda _: database.connect(), seed, nothing_left)


def paths_of(world: World, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of everything that can be read."""
    paths = ["/v1/agents", "/v1/usage", "/v1/toolgroups", "/v1/shields", "/v1/models", CHAT, names["attachment"]]
    for agent in world.send("GET", "/v1/agents", settles=False).json()["data"]:
        path = f"/v1/agents/{agent['agent_id']}"
        paths += [path, f"{path}/sessions"]
        for session in world.send("GET", f"{path}/sessions", settles=False).json()["data"]:
            whole = f"{path}/session/{session['session_id']}"
            paths += [whole, f"{whole}/context"]
            turns = world.send("GET", whole, settles=False).json()["turns"]
            paths += [f"{whole}/turn/{turn['turn_id']}" for turn in turns]
            ended = [turn["turn_id"] for turn in turns if turn.get("completed_at")]
            paths += [f"{whole}/turn/{turn_id}/events" for turn_id in ended]
    for completion in world.send("GET", CHAT, settles=False).json()["data"]:
        paths += [f"{CHAT}/{completion['id']}", f"{CHAT}/{completion['id']}/messages"]
    return tuple(paths)


def read(world: World, path: str) -> Answer:
    answer = world.send("GET", path, settles=False)
    world.clock.advance(-1)  # each request takes a second
    try:
        text = answer.body.decode()
    except UnicodeDecodeError:
        text = ""
    return Answer(path, answer.status, text if 0 < len(text) <= LONG else f"sha256:{sha256(answer.body).hexdigest()}")


def _ended_turns(world: World, names: dict[str, str]) -> None:
    world.post("/v1/shields", WORDS)
    names["agent"] = agent = world.agent(
        name="everything",
        client_tools=[WEATHER],
        toolgroups=["builtin::clock"],
        tools=[{"type": "brave_search", "engine": "brave", "api_key": SECRET}],
        input_shields=["words"],
        output_shields=["words"],
        sampling_params={"strategy": {"type": "top_p", "temperature": 0.5, "top_p": 0.9}, "max_tokens": 64},
        enable_session_persistence=True,
    )
    names["ended"] = ended = world.session(agent)
    world.turn(ended, "hello")
    world.turn(ended, "a bomb", stream=True)
    world.turn(ended, "call current_time {}", fields={"instructions": "Be kind."}, idempotency_key=KEY)
    world.turn(ended, "fail 400")
    cancelled = world.turn(ended, CALL).json()["turn_id"]
    world.post(f"{ended}/turn/{cancelled}/cancel", {})
    world.turn(ended, f"hello {LARGE}")
    words = " ".join(f"{number * number * 7919 % 100_003:x}" for number in range(700))
    world.turn(ended, f"hello {words}", stream=True)
    names["reopened"] = reopened = world.session(toolgroups=["builtin::clock"], enable_session_persistence=True)
    turn_id = world.turn(reopened, "parse").json()["turn_id"]
    responses = {"tool_responses": [{"call_id": "parsed", "tool_name": "add", "content": "7"}]}
    world.post(f"{reopened}/turn/{turn_id}/resume", {**responses, "stream": False})
    world.turn(reopened, "hello")
    answered = world.session(client_tools=[WEATHER], enable_session_persistence=True)
    turn = world.turn(answered, CALL).json()
    world.post(f"{answered}/turn/{turn['turn_id']}/resume", {**answer_to(turn), "stream": False})
    lost = world.session(client_tools=[WEATHER], enable_session_persistence=True)
    world.turn(lost, CALL)
    world.pass_time(86_401)
    world.reconcile()


def _waiting_turns(world: World, names: dict[str, str]) -> None:
    for name, more in (("paused", {}), ("superseded", {"toolgroups": ["builtin::clock"]})):
        names[name] = world.session(client_tools=[WEATHER], enable_session_persistence=True, **more)
        turn = world.turn(names[name], CALL, fields={"instructions": "Be kind."}).json()
        names[f"{name}_turn"] = turn["turn_id"]
    world.turn(names["superseded"], "hello")
    names["forgetful"] = world.session()
    world.turn(names["forgetful"], "hello")


def _registered(world: World, mcp: str) -> None:
    world.post("/v1/models", {"model_id": "mine", "provider_model_id": "stub-llm"})
    provider = {"provider_id": "model-context-protocol", "mcp_endpoint": {"uri": mcp}}
    assert world.send("POST", "/v1/toolgroups", {"toolgroup_id": "mcp::sums", **provider}).status == 200
    agent = {"agent_config": {"model": "stub-llm", "instructions": "Be brief.", "name": "once"}}
    world.send("POST", "/v1/agents", agent, idempotency_key=KEY)


def _completions(world: World, names: dict[str, str]) -> None:
    for name, text in (("small", "hello"), ("large", f"hello {LARGE}"), ("deleted", f"hello {LARGE}")):
        names[f"{name}_chat"] = world.post(CHAT, {"model": "stub-llm", **from_user(text), "store": True})["id"]
    world.send("DELETE", f"{CHAT}/{names['deleted_chat']}")


def _deleted(world: World) -> None:
    """Leave clean-up jobs of every kind, undone."""
    agent = world.agent(enable_session_persistence=True)
    kept, gone = world.session(agent), world.session(agent)
    for session in (kept, gone):
        world.turn(session, "hello")
    world.send("DELETE", gone)
    short_lived = world.agent(enable_session_persistence=True)
    world.turn(world.session(short_lived), "hello")
    world.send("DELETE", f"/v1/agents/{short_lived}")


def _token(world: World, names: Mapping[str, str]) -> None:
    """Store what the state machine that supervises a paused turn writes into its record."""
    _, _, _, agent_id, _, session_id = names["paused"].split("/")
    ref = SessionRef(tenant="local", agent_id=agent_id, session_id=session_id)
    key = turn_key(ref, names["paused_turn"])
    world.process.records.write([Update(key, {"token": "a token"}, (AttributeIs("status", "awaiting_input"),))])


def _attachment_and_lease(world: World, names: dict[str, str], session: str) -> None:
    """Store what a tool's file and a sweep leave; the server of this scene has neither."""
    store = OversizeStore(world.process.records, world.process._payloads)  # type: ignore[arg-type]
    agent_id, session_id = session.split("/")[3], session.split("/")[5]
    ref = SessionRef(tenant="local", agent_id=agent_id, session_id=session_id)
    AttachmentStore(store).put(ref, "drawn", ProducedFile("door.png", "image/png", bytes(range(256))))
    names["attachment"] = f"{session}/attachments/drawn"
    assert SweepStore(store).try_take("a sweep", world.clock.now(), world.clock.now())
