"""Responses: whole, streamed, continued, with function calls, listed and deleted."""

from __future__ import annotations

from typing import Any

from tests.golden.models import keyed
from tests.golden.scenarios.registry import scenario
from tests.golden.world import World

RESPONSES, SHORT = "/v1/openai/v1/responses", "/v1/responses"
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def request_of(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "stub-llm", "input": text, **more}


@scenario(
    "tests/e2e/responses/test_openai_client.py",
    "tests/e2e/responses/test_unstored.py",
    "tests/integration/responses/test_responses.py",
)
def of_a_model(world: World) -> None:
    world.serve(responses_ttl_s=3_600)
    first = world.post(RESPONSES, request_of("hello", instructions="Be brief.", metadata={"a": "b"}))["id"]
    second = world.post(SHORT, request_of("hello", previous_response_id=first))["id"]
    world.send("POST", RESPONSES, request_of("hello", stream=True))
    tools = {"tools": [ADD], "parallel_tool_calls": False}
    called = world.post(RESPONSES, request_of('call add {"city": "Oslo"}', **tools))
    output = {"type": "function_call_output", "call_id": called["output"][0]["call_id"], "output": "7"}
    world.send("POST", RESPONSES, {**request_of("", **tools), "input": [output], "previous_response_id": called["id"]})
    world.send("POST", RESPONSES, request_of('call add {"city": "Oslo"}', stream=True, **tools))
    world.send("POST", RESPONSES, request_of("fail 500"))
    world.send("POST", RESPONSES, request_of("fail 500", stream=True))
    for path in (RESPONSES, SHORT):
        world.get(f"{path}?limit=2")
        world.get(f"{path}/{second}")
        world.get(f"{path}/{second}/input_items?limit=1")
    unstored = {"store": False}
    for changed in ({"tools": [{"type": "shell"}]}, {"input": [output]}, unstored, {"model": "agent/none"}):
        world.send("POST", RESPONSES, {**request_of("hello"), **changed})
    world.send("POST", RESPONSES, request_of("hello", stream=True, previous_response_id=second, **unstored))
    world.send("POST", RESPONSES, request_of("hello", background=True, **unstored))
    world.send("GET", f"{RESPONSES}/{second}?stream=true&starting_after=5")
    for response_id in (second, "resp_unknown"):
        world.send("POST", f"{RESPONSES}/{response_id}/cancel")
    for method, target in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
        world.send(method, f"{RESPONSES}/resp_unknown{target}")
    world.send("POST", RESPONSES, request_of("hello", previous_response_id=first))
    world.send("DELETE", f"{RESPONSES}/{first}")
    world.send("GET", f"{SHORT}/{first}")
    world.send("DELETE", f"{SHORT}/{second}")
    world.work()
    world.pass_time(2 * 3_600)
    world.get(RESPONSES)
    world.work()


@scenario("tests/e2e/responses/test_mcp_servers.py", "tests/integration/responses/test_mcp_tools.py")
def with_an_mcp_server(world: World) -> None:
    """A call runs after its approval, and the server's credentials are in no answer."""
    mcp = world.mcp(keyed("Bearer secret-of-birds"))
    world.serve(fetch_allow=world.allowed(mcp))
    tool = {"type": "mcp", "server_label": "birds", "server_url": mcp, "authorization": "secret-of-birds"}
    free = {"tools": [{**tool, "require_approval": "never"}]}
    world.send("POST", RESPONSES, request_of("call echo {}", stream=True, **free))
    requested = world.post(SHORT, request_of("call echo {}", tools=[tool]))
    request = {"type": "mcp_approval_response", "approval_request_id": requested["output"][-1]["id"]}
    for approves in (True, True, False):
        given = {"input": [{**request, "approve": approves}], "previous_response_id": requested["id"], "tools": [tool]}
        world.send("POST", SHORT, {**request_of(""), **given})
    world.send("POST", RESPONSES, request_of("call echo {}", tools=[tool]))
    world.send("POST", RESPONSES, {**request_of("hello"), "tools": [{**tool, "authorization": "another"}]})
    world.get(f"{RESPONSES}/{requested['id']}")
