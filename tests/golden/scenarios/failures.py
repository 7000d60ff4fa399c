"""Failed turns and overloaded servers: every kind of failure, streamed, whole, and read afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.models.openai_answers import (
    Answer,
    BreakOff,
    HttpAnswer,
    Item,
    Pause,
    error_answer,
    text_answer,
    text_chunk,
)
from tests.fakes.tools.hostile_mcp_server import Message, Reply
from tests.golden.models import adding, held
from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.turns import CALL, WEATHER, answer_to
from tests.golden.world import Hold, World, from_user
from tests.support.models.worded_model import answer_by_words

CHAT = "/v1/openai/v1/chat/completions"


def failing(body: dict[str, Any]) -> Answer:
    """Fail in the way that the model's name states."""
    match body["model"]:
        case "refuses":
            return error_answer(400, "too long")
        case "missing":
            return error_answer(404, "no such model")
        case "breaks":
            return (text_chunk("Once"), Pause(0), BreakOff())
        case "silent":
            return (Pause(30), *text_answer("late"))
        case "busy":
            return HttpAnswer(429, {"error": {"message": "slow down"}}, {"Retry-After": "17"})
    return error_answer(500, "out of order")


def ids_of(turn_path: str) -> tuple[str, str, str]:
    """Return the ids of agent, session and turn in a turn's path."""
    _, _, _, agent_id, _, session_id, _, turn_id = turn_path.split("/")
    return agent_id, session_id, turn_id


def running(world: World, hold: Hold, session: str, *, stream: bool) -> tuple[Any, str]:
    """Start a turn whose model stops at the gate; return the pending request and the turn's path."""
    begun = world.begin("POST", f"{session}/turn", {**from_user("a story"), "stream": stream})
    world.until_held(hold)
    turn_id = world.send("GET", session, settles=False).json()["turns"][-1]["turn_id"]
    return begun, f"{session}/turn/{turn_id}"


@scenario(
    "tests/integration/models/test_openai_failures.py",
    "tests/e2e/turns/test_unanswered_turns.py",
    fails_by=("model_failed", "model_busy", "model_timed_out"),
)
def of_models(world: World) -> None:
    """`model_failed`, `model_busy` and `model_timed_out`."""
    world.serve(model_url=world.model(failing), model_timeout_seconds=1.5)
    for model in ("refuses", "missing", "breaks", "silent", "busy", "out of order"):
        session = world.session(model=model)
        turn_id = None
        for stream in (False, True):
            world.turn(session, "hello", stream=stream)
        for turn in world.get(session)["turns"]:
            turn_id = turn["turn_id"]
        world.send("GET", f"{session}/turn/{turn_id}")
        world.send("GET", f"{session}/turn/{turn_id}/events")
    ids = dict(zip(("agent_id", "session_id"), (session.split("/")[3], session.split("/")[5]), strict=True))
    world.send("POST", "/agents/turn/create", {**ids, **from_user("hello"), "stream": True})
    world.send("POST", "/agents/turn/create", {**ids, **from_user("hello"), "stream": False})


@scenario(
    "tests/integration/turns/test_cancel.py",
    "tests/integration/cleanup/test_deletion.py",
    "tests/e2e/turns/test_silent_models.py",
    fails_by=("ended", "gone"),
)
def of_ends(world: World) -> None:
    """`ended` and `gone`: a running turn is cancelled, or deleted with its session or its agent."""
    for ending in ("cancel", "session", "agent"):
        for stream in (False, True):
            hold = Hold()
            world.serve(model_url=world.model(lambda _, hold=hold: held(hold.items)))
            session = world.session()
            begun, path = running(world, hold, session, stream=stream)
            events = world.begin("GET", f"{path}/events")
            world.until_answered(events)
            if ending == "cancel":
                world.send("POST", f"{path}/cancel", {}, settles=False)
            else:
                world.send(
                    "DELETE", session if ending == "session" else session.partition("/session/")[0], settles=False
                )
            hold.open()
            world.finish(begun)
            world.finish(events)
            world.send("GET", path)
            world.work()


@scenario(
    "tests/integration/turns/supervision/test_hand_over.py",
    "tests/integration/turns/test_leases.py",
    fails_by=("handed_over", "lease_lost"),
)
def of_processes(world: World) -> None:
    """`handed_over` and `lease_lost`: another process continues a turn."""
    for stream in (False, True):
        for is_delegated in (True, False):
            hold = Hold()
            answers = iter((held(hold.items), text_answer("by another")))
            url = world.model(lambda _, answers=answers: next(answers))
            world.serve(model_url=url)
            session = world.session()
            begun, path = running(world, hold, session, stream=stream)
            first = world.process
            if is_delegated:
                world.note("the process leaves the turn to another")
                first.hand_over(*ids_of(path))
                world.finish(begun, settles=False)
            world.pass_time(2 * 3_600)
            world.serve(model_url=url)
            world.note("another process takes the turn over")
            world.process.take_over(*ids_of(path))
            world.send("GET", path, settles=False)
            hold.open()
            if not is_delegated:
                world.finish(begun)
            world.settle()
            world.get(session)


@scenario(
    "tests/integration/usage/test_usage.py", "tests/integration/turns/test_turn_bounds.py", fails_by=("limit_reached",)
)
def of_limits(world: World) -> None:
    """`limit_reached`: by a turn's tokens, by its time, and by the day's tokens."""
    world.serve(max_turn_tokens=15)
    session = world.session(toolgroups=["builtin::clock"])
    for stream in (False, True):
        world.turn(session, "call current_time {}", stream=stream)
    world.serve(max_turn_seconds=1)
    session = world.session(toolgroups=["builtin::clock"])
    for stream in (False, True):
        world.turn(session, "call current_time {}", stream=stream)
    world.serve(max_day_tokens=30)
    session = world.session()
    for stream in (False, False, True, False):
        world.pass_time(11)
        world.turn(session, "hello", stream=stream)
    world.send("POST", CHAT, {"model": "stub-llm", **from_user("hello")})
    world.pass_time(86_400)
    world.turn(session, "hello")


@scenario(
    "tests/integration/sessions/test_broken_records.py",
    "tests/e2e/store/test_disk_troubles.py",
    fails_by=("store_unavailable", "internal"),
)
def of_the_store(world: World) -> None:
    """`store_unavailable` and `internal`: the store breaks before a turn, and within one."""
    for problem in (None, RuntimeError("a bug")):
        world.serve()
        session = world.session(client_tools=[WEATHER])
        world.note("the store breaks")
        world.process.break_store(problem)
        for method, target in (("GET", session), ("POST", f"{session}/turn"), ("GET", CHAT), ("DELETE", session)):
            world.send(method, target, from_user("hello") if method == "POST" else None)
        world.send("POST", "/agents/session/get", {"agent_id": "a", "session_id": "s"})
        world.note("the store is mended")
        world.process.mend_store()
        for stream in (False, True):
            hold = Hold()
            world.serve(model_url=world.model(lambda _, hold=hold: held(hold.items)))
            session = world.session()
            begun, path = running(world, hold, session, stream=stream)
            world.note("the store breaks")
            world.process.break_store(problem)
            hold.open()
            world.finish(begun)
            world.note("the store is mended")
            world.process.mend_store()
            world.send("GET", path)


@scenario(
    "tests/e2e/turns/test_waiting.py",
    "tests/integration/turns/queueing/test_crowds.py",
    "tests/unit/turns/test_slots.py",
)
def of_crowds(world: World) -> None:
    """No slot is free: for every caller, for a tenant, and for a request that would wait."""
    hold = Hold()

    def answer(body: dict[str, Any]) -> Answer:
        if "story" in str(body["messages"]):
            return held(hold.items)
        return answer_by_words(body)

    url = world.model(answer)
    world.serve(model_url=url, max_running_turns=1, place_wait_seconds=0, auth="off")
    busy, other = world.session(), world.session()
    begun, _ = running(world, hold, busy, stream=False)
    for stream in (False, True):
        world.send("POST", f"{other}/turn", {**from_user("hello"), "stream": stream}, settles=False)
    world.send("POST", CHAT, {"model": "stub-llm", **from_user("hello")}, settles=False)
    hold.open()
    world.finish(begun)
    world.turn(other, "hello")
    of_a_tenant(world)


def of_a_tenant(world: World) -> None:
    hold = Hold()

    def items(body: dict[str, Any]) -> Iterator[Item]:
        if "story" in str(body["messages"]):
            yield from hold.items()
        yield from text_answer("ok")

    world.serve(
        model_url=world.model(items, "model of tenants"),
        max_running_turns=4,
        max_tenant_turns=1,
        place_wait_seconds=0,
        auth="api_keys",
    )
    world.key("ann", "acme")
    world.key("eve", "other")
    sessions = {name: world.session(sender=name) for name in ("ann", "eve")}
    begun = world.begin("POST", f"{sessions['ann']}/turn", {**from_user("a story"), "stream": False}, sender="ann")
    world.until(hold.reached)
    world.send("POST", CHAT, {"model": "stub-llm", **from_user("hello")}, sender="ann", settles=False)
    world.send("POST", f"{sessions['eve']}/turn", {**from_user("hello"), "stream": False}, sender="eve", settles=False)
    hold.open()
    world.finish(begun)


@scenario("tests/e2e/server/test_server_shutdown.py", "tests/integration/aws/test_last_byte.py")
def of_a_stop(world: World) -> None:
    """The server stops while a turn runs: it takes no new turn, and finishes that one."""
    hold = Hold()
    world.serve(model_url=world.model(lambda _: held(hold.items)))
    session, other = world.session(), world.session()
    begun, path = running(world, hold, session, stream=True)
    world.note("the server begins to stop")
    world.process.begin_to_stop()
    world.send("POST", f"{other}/turn", {**from_user("hello"), "stream": False}, settles=False)
    world.send("POST", CHAT, {"model": "stub-llm", **from_user("hello")}, settles=False)
    world.send("GET", path, settles=False)
    hold.open()
    world.finish(begun)


@scenario(
    "tests/integration/turns/supervision/test_expiry_and_supervisor.py", "tests/e2e/server/test_server_process.py"
)
def taken_over_after_a_pause(world: World) -> None:
    """The process ends while a turn waits for its client; another one resumes it."""
    url = world.model()
    world.serve(model_url=url)
    session = world.session(client_tools=[WEATHER])
    turn = world.turn(session, CALL).json()
    world.note("another process serves")
    world.serve(model_url=url)
    world.reconcile()
    world.send("POST", f"{session}/turn/{turn['turn_id']}/resume", {**answer_to(turn), "stream": True})
    world.get(session)


@scenario(
    "tests/e2e/tools/test_mcp_tools.py",
    fails_by=("tools_unavailable", "tools_want_credentials", "tools_refuse_credentials"),
)
def of_toolgroups(world: World) -> None:
    """Another process takes a turn over and can no longer list the tools of its toolgroup."""
    refusals = {"ok": 200, "wants": 401, "refuses": 403, "breaks": 500}
    now = ["ok"]

    def reply(message: Message, _: Mapping[str, str]) -> Reply:
        return adding(message) if now[0] == "ok" else Reply(status=refusals[now[0]])

    mcp = world.mcp(reply)
    group = {"toolgroup_id": "mcp::sums", "provider_id": "model-context-protocol", "mcp_endpoint": {"uri": mcp}}
    for name in ("wants", "refuses", "breaks"):
        hold = Hold()
        url = world.model(lambda _, hold=hold: held(hold.items))
        world.serve(model_url=url, fetch_allow=world.allowed(mcp))
        if name == "wants":
            world.post("/v1/toolgroups", group)
        session = world.session(toolgroups=["mcp::sums"])
        begun, path = running(world, hold, session, stream=True)
        world.process.hand_over(*ids_of(path))
        world.finish(begun, settles=False)
        hold.open()
        world.settle()
        world.pass_time(2 * 3_600)
        now[0] = name
        world.serve(model_url=url, fetch_allow=world.allowed(mcp))
        world.note("another process takes the turn over")
        world.process.take_over(*ids_of(path))
        world.send("GET", path)
        world.send("GET", f"{path}/events")
        now[0] = "ok"


@scenario("tests/integration/sessions/test_lost_payloads.py", has_small_records=True)
def of_lost_content(world: World) -> None:
    """The content of a turn is lost while it runs, or waits for its client."""
    words = " ".join(f"{number * number * 7919 % 100_003:x}" for number in range(900))
    url = world.model()
    world.serve(model_url=url)
    waiting = world.session(client_tools=[WEATHER])
    turn = world.turn(waiting, CALL, fields={"instructions": words}).json()
    world.lose_payloads()
    world.send("POST", f"{waiting}/turn/{turn['turn_id']}/resume", {**answer_to(turn), "stream": True})
    world.turn(waiting, "hello")
    hold = Hold()
    world.serve(model_url=world.model(lambda _: held(hold.items), "slow model"))
    session = world.session()
    begun = world.begin("POST", f"{session}/turn", {**from_user(f"a story {words}"), "stream": True})
    world.until_held(hold)
    path = f"{session}/turn/{world.send('GET', session, settles=False).json()['turns'][0]['turn_id']}"
    world.process.hand_over(*ids_of(path))
    world.finish(begun, settles=False)
    hold.open()
    world.settle()
    world.lose_payloads()
    world.pass_time(2 * 3_600)
    world.serve(model_url=url)
    world.note("another process takes the turn over")
    world.process.take_over(*ids_of(path))
    world.send("GET", path)
    world.send("GET", f"{path}/events")
    world.get(session)
