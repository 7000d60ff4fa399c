"""Models: listed, registered, routed by an operator's file, and those that have no tools of their own."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.models.openai_answers import Answer, HttpAnswer, call_answer, listed, text_answer
from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.turns import WEATHER, answer_to
from tests.golden.world import World, from_user

FILE = """
default_provider = "small"

[providers.small]
type = "openai"
url = "{small}"

[providers.large]
type = "openai"
url = "{large}"

[providers.gone]
type = "openai"
url = "http://127.0.0.1:9/v1"

[models.clever]
provider = "large"
model = "words-5"
aliases = ["the/clever-one"]
context_tokens = 8000
prices = {{input = 0.5, output = 1.5}}

[models.careful]
provider = "gone"
model = "instant"
fallbacks = [{{provider = "large"}}, {{provider = "small"}}]

[models.embedder]
provider = "small"
model = "all-MiniLM-L6-v2"
embedding_dimension = 3
"""
CLOSED = """
registry = "closed"
[providers.p]
type = "openai"
url = "{url}"
[models.instant]
provider = "p"
"""
PROMPTED = """
default_provider = "p"
[providers.p]
type = "openai"
url = "{url}"
[models.plain]
provider = "p"
model = "plain"
tools = "prompted"
"""


@scenario("tests/e2e/clients/test_client_table.py", "tests/integration/registry/test_registry.py")
def registered(world: World) -> None:
    world.serve()
    world.get("/v1/models")
    world.get("/v1/openai/v1/models")
    mine = {"model_id": "mine/slashed", "provider_id": "default", "provider_model_id": "stub-llm"}
    for body in (mine, mine, {**mine, "provider_model_id": "other"}, {"model_id": "x", "provider_id": "unknown"}):
        world.send("POST", "/v1/models", body)
    embeds = {"model_id": "embeds", "provider_model_id": "stub-llm", "model_type": "embedding"}
    world.send("POST", "/v1/models", embeds)
    world.send("POST", "/v1/models", {**embeds, "metadata": {"embedding_dimension": 3}}, idempotency_key="embeds")
    world.get("/v1/models/mine/slashed")
    world.get("/v1/openai/v1/models/mine/slashed")
    world.turn(world.session(model="mine/slashed"), "hello")
    world.get("/v1/providers")
    world.get("/v1/providers/default")
    world.send("GET", "/v1/providers/unknown")
    for target in ("/v1/models/mine/slashed", "/v1/models/mine/slashed", "/v1/openai/v1/models/embeds"):
        world.send("DELETE", target)
    for target in ("/v1/models/unknown", "/v1/openai/v1/models/unknown"):
        world.send("GET", target)
        world.send("DELETE", target)


@scenario("tests/e2e/models/test_model_routing.py")
def routed(world: World) -> None:
    small = world.model(name="small", listed=listed("instant"))
    large = world.model(name="large")
    world.serve(config=FILE.format(small=small, large=large))
    world.get("/v1/models")
    world.get("/v1/providers")
    own = json.dumps({"small_api_key": "sk-callers-own"})
    for model in ("clever", "the/clever-one", "instant", "careful"):
        world.turn(world.session(model=model), "hello", x_llamastack_provider_data=own)
    session = world.session(model="careful")
    world.turn(session, "hello", stream=True)
    for sent in ("{", "[1]", '"text"'):
        world.turn(session, "hello", x_llamastack_provider_data=sent)
    world.send("POST", "/v1/openai/v1/chat/completions", {"model": "careful", **from_user("hello")})
    world.send("POST", "/v1/openai/v1/embeddings", {"model": "embedder", "input": "one"})
    world.get("/v1/usage")


@scenario("tests/e2e/models/test_model_routing.py")
def closed_registry(world: World) -> None:
    world.serve(config=CLOSED.format(url=world.model()))
    unknown = {"agent_config": {"model": "unknown", "instructions": ""}}
    world.send("POST", "/v1/agents", unknown)
    world.get("/v1/models")
    registered = {"model_id": "unknown", "provider_id": "p", "provider_model_id": "instant"}
    world.send("POST", "/v1/models", registered)
    world.send("POST", "/v1/agents", unknown)
    world.send("POST", "/v1/models", {**registered, "model_id": "instant", "provider_model_id": "x"})
    world.send("POST", "/v1/openai/v1/chat/completions", {"model": "nobody", **from_user("hello")})


@scenario("tests/e2e/models/test_model_routing.py", "tests/e2e/server/test_log.py")
def provider_that_rests(world: World) -> None:
    overloaded = HttpAnswer(500, {"error": {"message": "overloaded"}})
    failing, healthy = world.model(lambda _: overloaded, "failing"), world.model(name="healthy")
    world.serve(
        config=f'default_provider = "a"\n[providers.a]\ntype = "openai"\nurl = "{failing}"\n'
        f'[providers.b]\ntype = "openai"\nurl = "{healthy}"\n'
        '[models.instant]\nprovider = "a"\nfallbacks = [{provider = "b"}]\n'
    )
    session = world.session(model="instant")
    for _ in range(5):
        world.turn(session, "hello")


@scenario("tests/unit/models/prompted/test_prompted_tools.py")
def without_tools_of_their_own(world: World) -> None:
    for form, call in (
        ("json", '{"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}}'),
        ("function_tag", '<function=get_weather>{"city": "Oslo"}</function>'),
        ("python_list", '[get_weather(city="Oslo")]'),
    ):

        def answer(body: dict[str, Any], call: str = call) -> Answer:
            is_first = len([message for message in body["messages"] if message["role"] == "user"]) == 1
            return text_answer(*(call[:9], call[9:]) if is_first else ("It is ", "rain."))

        world.serve(config=PROMPTED.format(url=world.model(answer, f"{form} model")))
        session = world.session(model="plain", client_tools=[WEATHER], tool_config={"tool_prompt_format": form})
        turn = world.turn(session, "how is the weather?").json()
        world.send("POST", f"{session}/turn/{turn['turn_id']}/resume", {**answer_to(turn), "stream": True})


@scenario("tests/unit/models/test_offline.py", "tests/e2e/clients/test_official_clients.py")
def offline(world: World) -> None:
    world.serve(model_url="offline")
    session = world.session(model="offline", client_tools=[WEATHER], toolgroups=["builtin::clock"])
    world.turn(session, "hello", stream=True)
    turn = world.turn(session, "please get_weather(city=Oslo)").json()
    world.send("POST", f"{session}/turn/{turn['turn_id']}/resume", {**answer_to(turn), "stream": True})
    world.turn(session, "current_time()", stream=True)
    world.send("POST", "/v1/openai/v1/embeddings", {"model": "offline", "input": ["a", "b"]})
    world.send("POST", "/v1/openai/v1/completions", {"model": "offline", "prompt": "Once"})
    world.get("/v1/models")


@scenario("tests/unit/models/openai/test_openai_answer.py", "tests/integration/models/test_openai_failures.py")
def odd_answers(world: World) -> None:
    """Calls without a name or with arguments that are none, and an answer that is cut off."""
    answers = {
        "unnamed": call_answer(("", "{}")),
        "unknown": call_answer(("nobody", "{}")),
        "broken": call_answer(("get_weather", "{")),
        "cut": text_answer("so far", finish_reason="length"),
        "empty": text_answer(),
    }
    world.serve(model_url=world.model(lambda body: answers[body["model"]]))
    for model in answers:
        session = world.session(model=model, client_tools=[WEATHER], max_infer_iters=2)
        world.turn(session, "go", stream=True)
        world.get(session)
