"""Lists, deletion, usage, and sessions that end by themselves."""

from __future__ import annotations

from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.turns import CALL, WEATHER
from tests.golden.world import World

DAY_S = 86_400


@scenario("tests/integration/sessions/test_lists.py", "tests/e2e/clients/test_agents_resources.py")
def lists(world: World) -> None:
    world.serve()
    world.get("/v1/agents")
    ids = [world.agent(name=f"agent {number}") for number in range(4)]
    page = world.get("/v1/agents?limit=2")
    page = world.get(f"/v1/agents?limit=2&cursor={page['cursor']}")
    world.get("/v1/agents?start_index=1&limit=2")
    world.get("/v1/agents?limit=-1")
    world.get("/v1/agents?limit=0")
    world.get("/v1/agents?name=agent%202")
    for query in ("limit=x", "cursor=x", "limit=1&limit=2", "start_index=-1"):
        world.send("GET", f"/v1/agents?{query}")
    for _ in range(3):
        world.session(ids[0])
    path = f"/v1/agents/{ids[0]}/sessions"
    page = world.get(f"{path}?limit=2")
    world.get(f"{path}?limit=2&cursor={page['cursor']}")
    world.get(path)
    world.send("GET", "/v1/agents/unknown/sessions")
    world.get(f"/v1/agents/{ids[0]}")


@scenario("tests/e2e/cleanup/test_deletion.py", "tests/integration/cleanup/test_deletion.py", has_small_records=True)
def deleted(world: World) -> None:
    world.serve()
    agent_id = world.agent(client_tools=[WEATHER])
    kept, gone = world.session(agent_id), world.session(agent_id)
    words = " ".join(f"{number * number * 7919 % 100_003:x}" for number in range(900))
    for session in (kept, gone):
        world.turn(session, f"hello {words}", idempotency_key="a key")
        world.turn(session, CALL)
    world.send("DELETE", gone)
    for method, target in (("GET", gone), ("DELETE", gone), ("GET", f"/v1/agents/{agent_id}/sessions")):
        world.send(method, target)
    world.turn(gone, "hello")
    world.work()
    world.pass_time(DAY_S)
    world.work()
    world.turn(kept, "hello")


@scenario("tests/e2e/cleanup/test_deletion.py", "tests/integration/cleanup/test_deletion.py", has_small_records=True)
def deleted_with_its_agent(world: World) -> None:
    world.serve()
    agent_id = world.agent(name="short-lived")
    sessions = [world.session(agent_id) for _ in range(3)]
    for session in sessions:
        world.turn(session, "hello")
    world.send("DELETE", f"/v1/agents/{agent_id}")
    world.send("DELETE", f"/v1/agents/{agent_id}")
    world.send("GET", f"/v1/agents/{agent_id}")
    world.send("GET", sessions[0])
    world.get("/v1/agents")
    world.work()
    for _ in range(3):
        world.pass_time(DAY_S)
        world.work()


@scenario("tests/integration/sessions/test_ephemeral_sessions.py")
def ends_by_itself(world: World) -> None:
    world.serve(ephemeral_ttl_s=3_600)
    forgetful, keeping = world.session(), world.session(enable_session_persistence=True)
    for session in (forgetful, keeping):
        world.turn(session, "hello")
    world.pass_time(2 * 3_600)
    for session in (forgetful, keeping):
        world.send("GET", session)
        world.turn(session, "hello")
    world.work()
    world.pass_time(DAY_S)
    world.work()


@scenario("tests/integration/usage/test_usage.py")
def usage(world: World) -> None:
    world.serve()
    session = world.session()
    agent_id, session_id = session.split("/")[3], session.split("/")[5]
    world.turn(session, "hello")
    world.pass_time(DAY_S)
    world.turn(session, "hello")
    world.turn(world.session(model="meta-llama/Llama-3.3-70B-Instruct"), "hello")
    world.get("/v1/usage")
    world.get("/v1/usage?from=2026-01-01&to=2026-01-02")
    world.get(f"/v1/usage?agent_id={agent_id}&from=2026-01-01")
    world.get(f"/v1/usage?agent_id={agent_id}&session_id={session_id}")
    for query in ("from=yesterday", "from=2026-01-02&to=2026-01-01", "session_id=x", "agent_id=unknown"):
        world.send("GET", f"/v1/usage?{query}")
    world.send("GET", f"{session}/context")
    world.send("GET", f"/v1/agents/{agent_id}/session/unknown/context")
