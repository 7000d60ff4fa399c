"""Models that are body directly, in both dialects: chats, continued texts, vectors, and chats that are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
from tests.golden.models import by_fields, continues
from tests.golden.scenarios.registry import scenario
from tests.golden.world import Hold, World, from_user

CHAT = "/v1/openai/v1/chat/completions"
SHORT = "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "add", "parameters": SCHEMA, "strict": True}}


@scenario("tests/e2e/clients/test_client_table.py", "tests/e2e/clients/test_openai_fields.py")
def openai_chat(world: World) -> None:
    world.serve()
    body = {"model": "stub-llm", **from_user("hello")}
    for path in (CHAT, SHORT):
        world.send("POST", path, body)
    world.send("POST", CHAT, {**body, "stream": True})
    world.send("POST", CHAT, {**body, "stream": True, "stream_options": {"include_usage": True}})
    calling = {"model": "stub-llm", **from_user('call add {"city": "Oslo"}'), "tools": [TOOL], "tool_choice": "auto"}
    world.send("POST", CHAT, calling)
    world.send("POST", CHAT, {**calling, "stream": True})
    given = {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 9,
        "stop": ["x"],
        "seed": 3,
        "user": "u1",
        "top_k": 5,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}},
    }
    world.send("POST", CHAT, {"model": "stub-llm", **from_user("json"), **given})
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
        {"role": "user", "content": "and now?"},
    ]
    world.send("POST", CHAT, {"model": "stub-llm", "messages": history})


@scenario("tests/e2e/clients/test_openai_fields.py")
def openai_fields(world: World) -> None:
    world.serve(model_url=world.model(by_fields))
    rated = {"model": "words", **from_user("hello"), "logprobs": True, "top_logprobs": 1, "metadata": {"a": "b"}}
    world.send("POST", CHAT, rated)
    world.send("POST", CHAT, {**rated, "stream": True})
    for model in ("gone", "busy"):
        for stream in (False, True):
            world.send("POST", CHAT, {"model": model, **from_user("hello"), "stream": stream})


@scenario("tests/integration/models/test_openai_errors.py", "tests/integration/models/test_openai_failures.py")
def models_that_fail(world: World) -> None:
    holds: list[Hold] = []

    def breaks() -> Iterator[Item]:
        yield from (text_chunk("Once"), Pause(0))
        yield from holds[-1].items()
        yield BreakOff()

    answers: dict[str, Callable[[], Answer]] = {
        "refuses": lambda: error_answer(400, "too long"),
        "breaks": breaks,
        "silent": lambda: (Pause(30), *text_answer("late")),
        "nonsense": lambda: HttpAnswer(200, b"hello"),
        "out of order": lambda: error_answer(500, "out of order"),
    }
    world.serve(model_url=world.model(lambda body: answers[body["model"]]()), model_timeout_seconds=1.5)
    for model in answers:
        for stream in (False, True):
            for path, name in ((CHAT, "model"), ("/v1/inference/chat-completion", "model_id")):
                holds.append(Hold())
                begun = world.begin("POST", path, {name: model, **from_user("hello"), "stream": stream})
                if model == "breaks" and stream:  # which aborts a stream that has begun
                    world.until_answered(begun)
                holds[-1].open()
                world.finish(begun)


@scenario("tests/e2e/clients/test_client_table.py", "tests/integration/models/test_inferring.py")
def llama_stack_chat(world: World) -> None:
    world.serve()
    path = "/v1/inference/chat-completion"
    body = {"model_id": "stub-llm", **from_user("hello")}
    tool = {"tool_name": "add", "parameters": {"a": {"param_type": "int", "required": True}}}
    calling = {"model_id": "stub-llm", **from_user('call add {"a": 3}'), "tools": [tool]}
    schema = {"type": "json_schema", "json_schema": SCHEMA}
    for given in (body, calling, {**body, **from_user("json"), "response_format": schema}):
        world.send("POST", path, given)
        world.send("POST", path, {**given, "stream": True})
    for wrong in ({}, {**body, "messages": []}, {**body, "model_id": ""}, {**body, "stream": "x"}):
        world.send("POST", path, wrong)


@scenario("tests/e2e/clients/test_completions_clients.py", "tests/integration/models/test_completions.py")
def continued_texts(world: World) -> None:
    world.serve(model_url=world.model(complete=continues))
    for path in ("/v1/openai/v1/completions", "/v1/completions"):
        for prompt in ("Once upon", ["One", "Two"]):
            for stream in (False, True):
                world.send("POST", path, {"model": "m", "prompt": prompt, "stream": stream, "max_tokens": 5})
    world.send("POST", "/v1/completions", {"model": "m", "prompt": ["One", "Two"], "echo": True})
    for wrong in ({"n": 2}, {"best_of": 2}, {"logprobs": 1}, {"prompt": [1, 2]}, {"suffix": "x"}):
        world.send("POST", "/v1/completions", {"model": "m", "prompt": "Once", **wrong})
    for stream in (False, True):
        world.send("POST", "/v1/inference/completion", {"model_id": "m", "content": "Once", "stream": stream})
    world.serve()
    world.send("POST", "/v1/completions", {"model": "m", "prompt": "hello"})


@scenario("tests/unit/models/openai/test_openai_embeddings.py", "tests/e2e/clients/test_client_table.py")
def vectors(world: World) -> None:
    world.serve()
    for path in ("/v1/openai/v1/embeddings", "/v1/embeddings"):
        world.send("POST", path, {"model": "all-MiniLM-L6-v2", "input": ["one", "three"]})
    world.send("POST", "/v1/embeddings", {"model": "m", "input": "one", "encoding_format": "base64", "dimensions": 4})
    for wrong in ({"input": []}, {"input": [1, 2]}, {"input": "x", "model": "broken"}):
        world.send("POST", "/v1/embeddings", {"model": "m", **wrong})
    world.send("POST", "/v1/inference/embeddings", {"model_id": "m", "contents": ["one", "three"]})
    world.send("POST", "/v1/inference/embeddings", {"model_id": "m", "contents": []})


@scenario("tests/integration/models/test_stored_completions.py", "tests/e2e/clients/test_completions_clients.py")
def stored_chats(world: World) -> None:
    world.serve(stored_completion_ttl_s=3_600)
    ids = []
    for number in range(3):
        body = {"model": "stub-llm", **from_user(f"hello {number}"), "store": True, "metadata": {"number": str(number)}}
        ids.append(world.post(CHAT, body)["id"])
    world.send("POST", CHAT, {"model": "other", **from_user("streamed"), "store": True, "stream": True})
    world.send("POST", CHAT, {"model": "stub-llm", **from_user("kept nowhere"), "store": False})
    for query in ("", "?limit=2", f"?after={ids[1]}", "?order=asc&limit=1", "?model=other", "?metadata[number]=1"):
        world.get(f"{CHAT}{query}")
    for query in ("limit=x", "order=up", "after=x"):
        world.send("GET", f"{CHAT}?{query}")
    for path in (CHAT, SHORT):
        world.get(f"{path}/{ids[0]}")
        world.get(f"{path}/{ids[0]}/messages?limit=1")
        world.post(f"{path}/{ids[0]}", {"metadata": {"topic": path}})
        world.get(path)
    world.send("POST", f"{CHAT}/{ids[0]}", {"metadata": {"x": 1}})
    for path in (CHAT, SHORT):
        for method, target in (("GET", ""), ("POST", ""), ("DELETE", ""), ("GET", "/messages")):
            world.send(method, f"{path}/chatcmpl-unknown{target}", {"metadata": {}} if method == "POST" else None)
    world.send("DELETE", f"{CHAT}/{ids[0]}")
    world.send("DELETE", f"{SHORT}/{ids[1]}")
    world.send("GET", f"{CHAT}/{ids[0]}")
    world.work()
    world.pass_time(2 * 3_600)
    world.get(CHAT)
    world.get(f"{CHAT}/{ids[2]}")
    world.work()
    world.pass_time(86_400)
    world.work()
