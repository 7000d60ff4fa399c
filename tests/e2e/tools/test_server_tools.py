"""Server tools in turns of a real server with a file: searches, images, remote execution.

Covers: adapters/tools
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.image_models import KEY as IMAGE_KEY
from tests.fakes.models.image_models import PNG, openai_images
from tests.fakes.tools.search_services import KEY, brave, wolfram
from tests.fakes.web.web_server import WebAnswer, WebRequest, WebServer, json_answer
from tests.support.clients.plain_client import Json, PlainClient
from tests.support.server.servers import HOST, ServerProcess

SECRET = "Bearer only-for-the-tool's-server"


@dataclass
class World:
    client: PlainClient
    server: ServerProcess
    tool_server: WebServer

    def turn(self, text: str, provider_data: Json | None = None, **config: Any) -> Json:
        path = self.client.open_session(model="offline", **config)
        headers = {"X_LlamaStack_Provider_Data": json.dumps(provider_data)} if provider_data else {}
        body = {"messages": [{"role": "user", "content": text}], "stream": False}
        response = self.client.post(f"{path}/turn", body, **headers)
        assert response.status_code == 200, response.text
        turn: Json = response.json()
        return turn


def weather(request: WebRequest) -> WebAnswer:
    if request.headers.get("authorization") != SECRET:
        return json_answer({"error": "who are you?"}, 401)
    return json_answer({"asked": request.target, "degrees": 21})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("server")
    with ExitStack() as stack:
        search, maths, images, tools = (
            stack.enter_context(WebServer(answers)) for answers in (brave, wolfram, openai_images, weather)
        )
        config = _config(folder, search, maths, images)
        allowed = f"{HOST}:{tools.port}"
        server = stack.enter_context(ServerProcess(folder, config=config, fetch_allow=allowed))
        yield World(stack.enter_context(PlainClient(server.url)), server, tools)


def _config(folder: Path, search: WebServer, maths: WebServer, images: WebServer) -> Path:
    config = folder / "turnstone.toml"
    config.write_text(f"""
        default_provider = "o"
        [providers.o]
        type = "offline"
        [providers.i]
        type = "openai"
        url = "{images.url}/v1"
        [tools.websearch]
        url = "{search.url}/res/v1/web/search"
        [tools.wolfram_alpha]
        url = "{maths.url}/v2/query"
        [tools.photogen]
        provider = "i"
        model = "gpt-image-1"
    """)
    return config


def response_in(turn: Json) -> Json:
    (step,) = [step for step in turn["steps"] if step["step_type"] == "tool_execution"]
    (response,) = step["tool_responses"]
    found: Json = response
    return found


def test_a_search_runs_with_the_callers_key_and_models_see_it_as_brave_search(world: World) -> None:
    text = "brave_search(query='rain in spain')"
    turn = world.turn(text, {"brave_search_api_key": KEY}, toolgroups=["builtin::websearch"])
    response = response_in(turn)
    assert response["tool_name"] == "brave_search"
    assert len(json.loads(response["content"])["top_k"]) == 3
    without = response_in(world.turn(text, toolgroups=["builtin::websearch"]))
    assert "requires a key" in without["content"]


def test_an_agent_of_september_2024_calls_wolfram_with_the_key_of_its_definition(world: World) -> None:
    tools = [{"type": "wolfram_alpha", "api_key": KEY}]
    response = response_in(world.turn("wolfram_alpha(query='2+2')", tools=tools))
    assert json.loads(response["content"])["queryresult"]["pods"][-1]["title"] == "Result"


def test_an_image_that_a_model_made_can_be_downloaded_from_the_turns_attachments(world: World) -> None:
    provider_data = {"i_api_key": IMAGE_KEY}
    turn = world.turn("photogen(query='a red door')", provider_data, toolgroups=["builtin::photogen"])
    (attachment,) = turn["output_attachments"]
    assert attachment["mime_type"] == "image/png"
    url = attachment["content"]["uri"]
    image = world.client._http.get(url)
    assert (image.status_code, image.headers["content-type"], image.content) == (200, "image/png", PNG)


def test_a_function_runs_at_the_url_of_its_definition_with_headers_that_appear_nowhere_else(world: World) -> None:
    url = f"{world.tool_server.url}/weather/{{city}}"
    remote = {"url": url, "method": "GET", "params": {"units": "metric"}, "headers": {"Authorization": SECRET}}
    function = {
        "type": "function_call",
        "function_name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"city": {"param_type": "string"}, "days": {"param_type": "integer", "required": False}},
        "remote_execution": remote,
    }
    turn = world.turn("get_weather(city='../Köln', days=2)", tools=[function])
    assert "leads to another path" in response_in(turn)["content"]
    turn = world.turn("get_weather(city='Köln/Süd', days=2)", tools=[function])
    result = json.loads(response_in(turn)["content"])
    assert result == {"asked": "/weather/K%C3%B6ln%2FS%C3%BCd?units=metric&days=2", "degrees": 21}
    assert SECRET not in json.dumps(turn)
    assert SECRET not in world.server.log
    assert world.tool_server.requests[-1].headers["idempotency-key"]


def test_a_function_that_runs_at_a_private_address_is_not_run(world: World) -> None:
    requests_before = len(world.tool_server.requests)
    url = f"http://localhost:{world.tool_server.port}/weather"  # the number is allowed, this name is not
    function = {"type": "function_call", "function_name": "peek", "remote_execution": {"url": url, "method": "POST"}}
    assert "can't be fetched" in response_in(world.turn("peek()", tools=[function]))["content"]
    assert len(world.tool_server.requests) == requests_before
