"""Tools that the server runs, and their providers: toolgroups, MCP servers, searches, images, remote calls."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.models.image_models import KEY as IMAGE_KEY
from tests.fakes.models.image_models import openai_images
from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.tools.search_services import KEY, brave, wolfram
from tests.fakes.web.web_server import WebAnswer, WebRequest, json_answer
from tests.golden.models import adding, keyed
from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.turns import WEATHER, answer_to
from tests.golden.world import World

MCP_KEY = "Bearer key-of-the-caller"
SECRET = "Bearer only-for-the-tool's-server"
FILE = """
default_provider = "o"
[providers.o]
type = "offline"
[providers.i]
type = "openai"
url = "{images}/v1"
[tools.websearch]
url = "{search}/res/v1/web/search"
[tools.wolfram_alpha]
url = "{maths}/v2/query"
[tools.photogen]
provider = "i"
model = "gpt-image-1"
"""


def weather(request: WebRequest) -> WebAnswer:
    if request.headers.get("authorization") != SECRET:
        return json_answer({"error": "who are you?"}, 401)
    return json_answer({"asked": request.target, "degrees": 21})


def several(body: dict[str, Any]) -> Answer:
    """Call the clock twice, and the client's tool, at once."""
    if body["messages"][-1]["role"] == "user":
        zone = '{"timezone": "Europe/Berlin"}'
        return call_answer(("current_time", "{}"), ("current_time", zone), ("get_weather", '{"city": "Oslo"}'))
    return text_answer("Done.")


@scenario("tests/e2e/clients/test_client_table.py", "tests/integration/tools/test_tools_in_turns.py")
def clock(world: World) -> None:
    world.serve()
    session = world.session(toolgroups=["builtin::clock"])
    world.turn(session, "call current_time {}", stream=True)
    world.turn(session, 'call current_time {"timezone": "Nowhere"}')
    world.turn(session, "call current_time {}", fields={"toolgroups": []})
    fixed = world.session(toolgroups=[{"name": "builtin::clock", "args": {"timezone": "Asia/Tokyo"}}])
    world.turn(fixed, "call current_time {}")
    world.turn(world.session(toolgroups=["builtin::clock/current_time"]), "call current_time {}")
    world.turn(world.session(), "hello", fields={"toolgroups": ["unknown"]})


@scenario("tests/integration/tools/test_tools_in_turns.py")
def calls_of_both_kinds(world: World) -> None:
    world.serve(model_url=world.model(several))
    for stream in (True, False):
        session = world.session(toolgroups=["builtin::clock"], client_tools=[WEATHER])
        world.turn(session, "go", stream=stream)
        (turn,) = world.get(session)["turns"]
        path = f"{session}/turn/{turn['turn_id']}/resume"
        world.send("POST", path, {"tool_responses": [], "stream": stream})
        world.send("POST", path, {**answer_to(turn), "stream": stream})


@scenario("tests/e2e/tools/test_server_tools.py")
def searches_images_and_remote_calls(world: World) -> None:
    search, maths, images = world.web(brave, "brave"), world.web(wolfram, "wolfram"), world.web(openai_images, "images")
    elsewhere = world.web(weather, "weather")
    file = FILE.format(search=search, maths=maths, images=images)
    world.serve(config=file, fetch_allow=world.allowed(elsewhere))
    offline = {"model": "offline"}
    searching = world.session(toolgroups=["builtin::websearch"], **offline)
    provider = json.dumps({"brave_search_api_key": KEY})
    world.turn(searching, "brave_search(query='rain in spain')", x_llamastack_provider_data=provider)
    world.turn(searching, "brave_search(query='rain in spain')")
    tools = [{"type": "wolfram_alpha", "api_key": KEY}]
    world.turn(world.session(tools=tools, **offline), "wolfram_alpha(query='2+2')")
    drawing = world.session(toolgroups=["builtin::photogen"], **offline)
    provider = json.dumps({"i_api_key": IMAGE_KEY})
    turn = world.turn(drawing, "photogen(query='a red door')", x_llamastack_provider_data=provider).json()
    url = turn["output_attachments"][0]["content"]["uri"]
    world.send("GET", url)
    world.send("GET", f"{url.rpartition('/')[0]}/unknown")
    remote = {"url": f"{elsewhere}/weather/{{city}}", "method": "GET", "params": {"units": "metric"}}
    function = {
        "type": "function_call",
        "function_name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"city": {"param_type": "string"}, "days": {"param_type": "integer", "required": False}},
        "remote_execution": {**remote, "headers": {"Authorization": SECRET}},
    }
    session = world.session(tools=[function], **offline)
    world.turn(session, "get_weather(city='../Köln', days=2)", stream=True)
    world.turn(session, "get_weather(city='Köln/Süd', days=2)")
    world.get(session.partition("/session/")[0])
    by_name = f"localhost:{elsewhere.rpartition(':')[2]}"  # which is not allowed; its number is
    world.rename(by_name, "<weather, by its name>")
    private = {"url": f"http://{by_name}/weather", "method": "POST"}
    peek = {"type": "function_call", "function_name": "peek", "remote_execution": private}
    world.turn(world.session(tools=[peek], **offline), "peek()")


@scenario("tests/e2e/tools/test_mcp_tools.py", "tests/e2e/clients/test_client_table.py")
def mcp_server(world: World) -> None:
    mcp = world.mcp(adding)
    world.serve(fetch_allow=world.allowed(mcp))
    group = {"toolgroup_id": "mcp::sums", "provider_id": "model-context-protocol", "mcp_endpoint": {"uri": mcp}}
    world.post("/v1/toolgroups", group)
    world.send("POST", "/v1/toolgroups", {**group, "args": {"a": 1}})
    world.get("/v1/tools?toolgroup_id=mcp::sums")
    world.get("/v1/tools/add")
    world.get("/v1/tool-runtime/list-tools?tool_group_id=mcp::sums")
    world.get(f"/v1/tool-runtime/list-tools?mcp_endpoint={json.dumps({'uri': mcp})}")
    world.post("/v1/tool-runtime/invoke", {"tool_name": "add", "kwargs": {"a": 3, "b": 4}})
    world.turn(world.session(toolgroups=["mcp::sums"]), 'call add {"a": 3, "b": 4}', stream=True)
    world.send("DELETE", "/v1/toolgroups/mcp::sums")
    world.send("GET", "/v1/toolgroups/mcp::sums")
    world.get("/v1/toolgroups")


@scenario("tests/e2e/tools/test_mcp_tools.py")
def mcp_server_with_credentials(world: World) -> None:
    """Missing credentials are a 401, insufficient ones a 403; a call within a turn has that as its result."""
    requires, refuses, lists = (
        world.mcp(keyed(MCP_KEY), "wants"),
        world.mcp(keyed(MCP_KEY, 403), "refuses"),
        world.mcp(keyed(MCP_KEY, 401, "initialize", "tools/list", "notifications/initialized"), "lists"),
    )
    gone = "http://127.0.0.1:9/mcp"
    world.serve(fetch_allow=f"{world.allowed(requires, refuses, lists)},127.0.0.1:9")
    for name, url in (("wants", requires), ("refuses", refuses), ("lists", lists), ("gone", gone)):
        group = {"toolgroup_id": f"mcp::{name}", "provider_id": "model-context-protocol", "mcp_endpoint": {"uri": url}}
        world.post("/v1/toolgroups", group)
        session = world.session(toolgroups=[f"mcp::{name}"])
        for stream in (False, True):
            world.turn(session, "call echo {}", stream=stream)
        headers = {"mcp_headers": {url: {"Authorization": MCP_KEY}}}
        world.turn(session, "call echo {}", x_llamastack_provider_data=json.dumps(headers))
        world.send("GET", f"/v1/tools?toolgroup_id=mcp::{name}")
        world.get(session)


@scenario("tests/e2e/clients/test_set_up_scripts.py", "tests/integration/registry/test_registry.py")
def registered(world: World) -> None:
    world.serve()
    world.get("/v1/toolgroups")
    world.get("/v1/toolgroups/builtin::clock")
    world.get("/v1/tools")
    world.get("/v1/tools/current_time")
    world.get("/v1/tool-runtime/list-tools")
    for body in ({"tool_name": "current_time", "kwargs": {"timezone": "UTC"}}, {"tool_name": "unknown", "kwargs": {}}):
        world.send("POST", "/v1/tool-runtime/invoke", body)
    world.send("GET", "/v1/tools/unknown")
    world.send("GET", "/v1/tools?toolgroup_id=unknown")
    world.post("/v1/toolgroups", {"toolgroup_id": "builtin::websearch", "provider_id": "tavily-search"})
    world.send("POST", "/v1/toolgroups", {"toolgroup_id": "mine", "provider_id": "unknown"})
    world.send("POST", "/v1/toolgroups", {"toolgroup_id": "mine", "provider_id": "model-context-protocol"})
    world.send("DELETE", "/v1/toolgroups/builtin::websearch")
    world.send("DELETE", "/v1/toolgroups/builtin::clock")
    world.send("DELETE", "/v1/toolgroups/unknown")
    world.get("/v1/toolgroups")
