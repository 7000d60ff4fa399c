"""Shields of questions, answers and tools, registered and run."""

from __future__ import annotations

from tests.fakes.models.openai_answers import Answer, HttpAnswer
from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.turns import CALL, WEATHER, answer_to
from tests.golden.world import World
from tests.support.models.worded_model import answer_by_words

GUARD = "meta-llama/Llama-Guard-3-8B"
WORDS = {"shield_id": "words", "provider_id": "pattern", "params": {"words": ["bomb", "secret"], "user_message": "No."}}
FILE = """
default_provider = "p"
[providers.p]
type = "openai"
url = "{url}"
[shields.rude]
provider = "pattern"
params = {{words = ["rude"]}}
"""


@scenario("tests/e2e/clients/test_official_clients.py", "tests/contract/registry/test_configured_shields.py")
def registered_and_run(world: World) -> None:
    world.serve()
    world.get("/v1/shields")
    guard = {"shield_id": GUARD, "provider_id": "llama-guard", "provider_shield_id": GUARD}
    for body in (WORDS, guard, WORDS, {**WORDS, "params": {"words": ["other"]}}):
        world.send("POST", "/v1/shields", body)
    world.send("POST", "/v1/shields", {"shield_id": "x", "provider_id": "unknown"})
    world.send("POST", "/v1/shields", {"shield_id": "x", "provider_id": "pattern", "params": {"patterns": ["("]}})
    world.get("/v1/shields")
    world.get(f"/v1/shields/{GUARD}")
    for shield in ("words", GUARD, "unknown"):
        for text in ("hello", "a bomb"):
            body = {"shield_id": shield, "messages": [{"role": "user", "content": text}], "params": {}}
            world.send("POST", "/v1/safety/run-shield", body)
    for _ in range(2):
        world.send("DELETE", "/v1/shields/words")
    world.send("GET", "/v1/shields/words")


@scenario("tests/integration/shields/test_shielded_turns.py", "tests/e2e/clients/test_official_clients.py")
def of_questions_and_answers(world: World) -> None:
    world.serve()
    world.post("/v1/shields", WORDS)
    world.post("/v1/shields", {"shield_id": GUARD, "provider_id": "llama-guard", "provider_shield_id": GUARD})
    for shields, texts in ((["words"], ("hello", "a bomb")), ([GUARD], ("a bomb",)), (["words", GUARD], ("hello",))):
        world.is_parallel = len(shields) > 1
        session = world.session(input_shields=shields, output_shields=shields)
        for text in texts:
            world.turn(session, text, stream=True)
            world.turn(session, text)
        world.get(session)
    answering = world.session(output_shields=["words"], instructions="secret")
    world.turn(answering, "what system?", stream=True)
    world.turn(world.session(input_shields=["nobody"]), "hello")


@scenario("tests/e2e/clients/test_official_clients.py", "tests/unit/turns/loop/test_engine_tool_shields.py")
def of_tools(world: World) -> None:
    world.serve()
    world.post("/v1/shields", WORDS)
    session = world.session(client_tools=[WEATHER], input_shields=["words"], output_shields=["words"])
    for content in ("rain", "a bomb"):
        turn = world.turn(session, CALL).json()
        world.send("POST", f"{session}/turn/{turn['turn_id']}/resume", {**answer_to(turn, content), "stream": True})
    guarded = {
        "type": "function_call",
        "function_name": "get_weather",
        "parameters": {"city": {"param_type": "string"}},
        "input_shields": ["words"],
        "output_shields": ["words"],
    }
    for city, content in (("Oslo", "rain"), ("bomb", "rain"), ("Oslo", "a bomb")):
        session = world.session(tools=[guarded])
        turn = world.turn(session, f'call get_weather {{"city": "{city}"}}').json()
        if turn["output_message"]["tool_calls"] and turn["completed_at"] is None:
            world.send("POST", f"{session}/turn/{turn['turn_id']}/resume", {**answer_to(turn, content), "stream": True})


@scenario("tests/integration/shields/test_shielded_turns.py")
def that_fail(world: World) -> None:
    def answer(body: dict[str, object]) -> Answer:
        if body["model"] == GUARD:
            return HttpAnswer(400, {"error": {"message": "no"}})
        return answer_by_words(body)

    world.serve(model_url=world.model(answer))
    for name, on_failure in (("open", "allow"), ("shut", "stop")):
        params = {"on_failure": on_failure}
        shield = {"shield_id": name, "provider_id": "llama-guard", "provider_shield_id": GUARD, "params": params}
        world.send("POST", "/v1/shields", shield)
        world.turn(world.session(input_shields=[name]), "hello", stream=True)


@scenario("tests/contract/registry/test_configured_shields.py")
def of_the_operators_file(world: World) -> None:
    world.serve(config=FILE.format(url=world.model()))
    world.get("/v1/shields")
    world.send("DELETE", "/v1/shields/rude")
    session = world.session(input_shields=["rude"])
    world.turn(session, "how rude")
    world.turn(session, "hello")
