"""Agents, sessions and turns: their messages, and reads of them."""

from __future__ import annotations

from typing import Any

from tests.golden.models import held
from tests.golden.scenarios.registry import scenario
from tests.golden.world import Hold, World, from_user

WEATHER = {"name": "get_weather", "description": "Tell the weather.", "parameters": []}
CALL = 'call get_weather {"city": "Oslo"}'
RAIN = {"tool_name": "get_weather", "content": "rain"}


def answer_to(turn: Any, content: Any = "rain") -> dict[str, Any]:
    """Return the body of a resume that answers every call a turn waits with."""
    calls = turn["output_message"]["tool_calls"]
    values = [{"call_id": c["call_id"], "tool_name": c["tool_name"], "content": content} for c in calls]
    return {"tool_responses": values}


@scenario("tests/e2e/clients/test_official_clients.py", "tests/e2e/server/test_server_process.py")
def streamed_and_whole(world: World) -> None:
    world.serve()
    session = world.session(name="forecaster", enable_session_persistence=True)
    world.turn(session, "hello")
    turn = world.turn(session, "hello", stream=True, fields={"instructions": "Be kind."})
    turn_id = turn.body.decode().split('"turn_id":"')[1][:36]
    values = world.get(f"{session}/turn/{turn_id}")
    world.get(f"{session}/turn/{turn_id}/step/{values['steps'][0]['step_id']}")
    world.get(session)
    world.get(f"{session}?turn_ids={turn_id}")
    world.get(f"{session}/context")
    world.send("GET", f"{session}/turn/{turn_id}/events")
    world.send("GET", f"{session}/turn/{turn_id}/events?after=2")
    world.send("GET", f"{session}/turn/{turn_id}/events", last_event_id="3")


@scenario("tests/e2e/turns/test_turn_status.py", "tests/e2e/clients/test_official_clients.py")
def paused_and_resumed(world: World) -> None:
    world.serve()
    for stream in (False, True):
        session = world.session(client_tools=[WEATHER])
        world.turn(session, CALL, stream=stream)
        (turn,) = world.get(session)["turns"]
        world.get(f"{session}/context")
        path = f"{session}/turn/{turn['turn_id']}"
        world.send("GET", path)
        world.send("GET", f"{path}/events?after=0", settles=False) if stream else None
        world.send("POST", f"{path}/resume", {**answer_to(turn), "stream": stream})
        world.send("GET", path)
        world.send("POST", f"{path}/resume", {**answer_to(turn), "stream": stream})


@scenario("tests/e2e/clients/test_calls_in_text.py")
def completed_turn_is_opened_again(world: World) -> None:
    world.serve()
    session = world.session(toolgroups=["builtin::clock"])
    turn = world.turn(session, "parse").json()
    path = f"{session}/turn/{turn['turn_id']}"
    responses = {"tool_responses": [{"call_id": "parsed", "tool_name": "add", "content": "7"}]}
    world.post(f"{path}/resume", {**responses, "stream": False})
    world.send("POST", f"{path}/resume", {**responses, "stream": True}, idempotency_key="once")
    world.send("POST", f"{path}/resume", {**responses, "stream": True}, idempotency_key="once")
    world.turn(session, "hello")
    world.send("POST", f"{path}/resume", {**responses, "stream": False})
    world.get(session)
    world.get("/v1/usage")


@scenario("tests/e2e/clients/test_official_clients.py::test_errors_reach_the_client_with_their_true_status")
def superseded_and_cancelled(world: World) -> None:
    world.serve()
    session = world.session(client_tools=[WEATHER])
    waiting = world.turn(session, CALL).json()["turn_id"]
    world.turn(session, CALL, stream=True)
    world.send("GET", f"{session}/turn/{waiting}")
    turn_id = world.get(session)["turns"][-1]["turn_id"]
    world.post(f"{session}/turn/{turn_id}/cancel", {})
    world.post(f"{session}/turn/{turn_id}/cancel", {})
    ended = world.turn(session, "hello").json()["turn_id"]
    world.send("POST", f"{session}/turn/{ended}/cancel", {})
    world.send("GET", f"{session}/turn/{turn_id}/events")
    world.get(session)


@scenario("tests/e2e/turns/test_unanswered_turns.py", "tests/e2e/server/test_server_process.py")
def expired(world: World) -> None:
    world.serve(await_seconds=60)
    session = world.session(client_tools=[WEATHER])
    turn = world.turn(session, CALL).json()
    path = f"{session}/turn/{turn['turn_id']}"
    world.pass_time(61)
    world.send("GET", path)
    world.reconcile()
    world.send("GET", path)
    world.send("POST", f"{path}/resume", answer_to(turn))
    world.turn(session, "hello")


@scenario("tests/e2e/turns/test_event_numbers.py", "tests/e2e/turns/test_repeated_requests.py")
def followed_and_joined(world: World) -> None:
    """While a turn runs, a client follows it, a retry joins it, and another turn of its session is refused."""
    hold = Hold()
    world.serve(model_url=world.model(lambda _: held(hold.items)))
    session = world.session()
    body = {**from_user("a story"), "stream": True}
    first = world.begin("POST", f"{session}/turn", body, idempotency_key="a key")
    world.until_held(hold)
    again = world.begin("POST", f"{session}/turn", body, idempotency_key="a key")
    world.until_answered(again)
    world.send("POST", f"{session}/turn", {**from_user("another"), "stream": False}, settles=False)
    world.send("POST", f"{session}/turn", body, settles=False, x_stainless_retry_count="0")
    turn_id = world.send("GET", session, settles=False).json()["turns"][0]["turn_id"]
    events = world.begin("GET", f"{session}/turn/{turn_id}/events?after=1")
    world.until_answered(events)
    world.send("GET", f"{session}/turn/{turn_id}", settles=False)
    hold.open()
    world.finish(first)
    world.finish(again)
    world.finish(events)
    world.get(session)


@scenario("tests/e2e/turns/test_repeated_requests.py")
def repeated_under_a_key(world: World) -> None:
    world.serve()
    agent = {"agent_config": {"model": "stub-llm", "instructions": "Be brief."}}
    other = {"agent_config": {"model": "stub-llm", "instructions": "Be verbose."}}
    for body in (agent, agent, other):
        world.send("POST", "/v1/agents", body, idempotency_key="agent")
    session = world.session(client_tools=[WEATHER])
    path = session.rpartition("/")[0]
    for name in ("a", "a", "b"):
        world.send("POST", path, {"session_name": name}, idempotency_key="session")
    for text in ("hello", "hello", "other"):
        world.turn(session, text, idempotency_key="turn")
        world.turn(session, text, stream=True, idempotency_key="streamed")
    turn = world.turn(session, CALL, idempotency_key="paused").json()
    world.turn(session, CALL, idempotency_key="paused")
    resume = f"{session}/turn/{turn['turn_id']}/resume"
    for content in ("rain", "rain", "snow"):
        world.send("POST", resume, {**answer_to(turn, content), "stream": False}, idempotency_key="resumed")
    world.turn(session, "hello", idempotency_key="turn")


@scenario("tests/e2e/turns/test_repeated_requests.py")
def repeated_by_a_count_of_retries(world: World) -> None:
    world.serve()
    session = world.session(client_tools=[WEATHER])
    for count in ("0", "1", "0"):
        world.turn(session, "hello", x_stainless_retry_count=count)
        world.turn(session, "hello", stream=True, x_stainless_retry_count=count)
    turn = world.turn(session, CALL, x_stainless_retry_count="0").json()
    resume = f"{session}/turn/{turn['turn_id']}/resume"
    for count in ("0", "1"):
        world.send("POST", resume, {**answer_to(turn), "stream": False}, x_stainless_retry_count=count)
    world.turn(session, "two", x_stainless_retry_count="1")
    world.get(session)


@scenario(
    "tests/integration/sessions/test_context_window.py",
    "tests/e2e/clients/test_official_clients.py",
    has_small_records=True,
)
def long_conversation(world: World) -> None:
    """The window is full, older turns are summed up, and a text is too long for a record."""
    world.serve(context_tokens=700, summaries=True)
    session = world.session(enable_session_persistence=True)
    for number in range(5):
        world.turn(session, f"hello {number} " + "and a long word " * 40)
    words = " ".join(f"{number * number * 7919 % 100_003:x}" for number in range(700))
    world.turn(session, f"hello {words}", stream=True)
    world.get(session)
    world.get(f"{session}/context")


@scenario("tests/unit/agents/test_agent_config.py", "tests/e2e/clients/test_first_requests.py")
def agents_with_every_field(world: World) -> None:
    world.serve()
    strategies = (
        {"type": "greedy"},
        {"type": "top_p", "temperature": 0.5, "top_p": 0.9},
        {"type": "top_k", "top_k": 5},
    )
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    for strategy in strategies:
        sampling = {"strategy": strategy, "max_tokens": 64, "repetition_penalty": 1.1, "stop": ["END"]}
        session = world.session(
            sampling_params=sampling,
            response_format={"type": "json_schema", "json_schema": schema},
            client_tools=[
                {**WEATHER, "parameters": [{"name": "city", "parameter_type": "string", "description": "x"}]}
            ],
            tool_config={"tool_choice": "required"},
            max_infer_iters=3,
        )
        world.turn(session, "json")
        world.get(session.partition("/session/")[0])
    image = {"type": "image", "image": {"data": ONE_PIXEL}}
    content = [{"type": "text", "text": "hello"}, image]
    message = {"role": "user", "content": content, "context": "some context"}
    world.post(f"{session}/turn", {"messages": [message], "stream": False})
    world.send(
        "POST", f"{session}/turn", {**from_user("hi"), "documents": [{"content": "4711", "mime_type": "text/plain"}]}
    )
    for choice in ("none", "get_weather"):
        chosen = world.session(client_tools=[WEATHER], tool_config={"tool_choice": choice})
        world.turn(chosen, "hello")
    replaced = {"tool_choice": "auto", "system_message_behavior": "replace"}
    world.turn(world.session(client_tools=[WEATHER], tool_config=replaced), "what system?")


ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@scenario(
    "tests/e2e/sessions/test_lost_turns.py",
    "tests/integration/sessions/test_lost_payloads.py",
    has_small_records=True,
    fails_by=("content_lost",),
)
def lost_content(world: World) -> None:
    """The payload of a turn is missing."""
    world.serve()
    session = world.session()
    words = " ".join(f"{number * number * 7919 % 100_003:x}" for number in range(900))
    turn_id = world.turn(session, f"hello {words}", idempotency_key="a key").json()["turn_id"]
    streamed = {**from_user(f"hello again {words}"), "stream": True}
    world.send("POST", f"{session}/turn", streamed, idempotency_key="another key")
    world.note("every payload is lost")
    world.lose_payloads()
    world.send("GET", f"{session}/turn/{turn_id}")
    world.send("GET", f"{session}/turn/{turn_id}/events")
    world.turn(session, f"hello {words}", idempotency_key="a key")
    world.send("POST", f"{session}/turn", streamed, idempotency_key="another key")
    world.get(session)
    world.turn(session, "hello")
