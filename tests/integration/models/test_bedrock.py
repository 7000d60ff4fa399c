"""BedrockInference against a loopback Bedrock, through botocore's own reading of event streams.

Covers: adapters/models/bedrock/bedrock, adapters/models/bedrock/bedrock_client, adapters/models/bedrock/bedrock_wire,
  adapters/models/bedrock/bedrock_answer
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.fakes.models import bedrock_frames as frames
from tests.fakes.models.bedrock_server import BedrockServer
from tests.fakes.models.openai_answers import Answer, Item, Pause
from tests.support.models.bedrock_client import MODEL, QUESTION, BedrockAdapters, bedrock_adapters, request
from tests.support.models.model_client import texts_of
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.models.bedrock.bedrock_wire import BedrockOptions
from turnstone.bootstrap.models import ProviderDeps, build_inference
from turnstone.domain.agents.agents import JsonSchemaFormat, SamplingParams, TopK
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage, SystemMessage, ToolResponseMessage, UserMessage
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Inferred, ReasoningChunk, TextChunk
from turnstone.domain.registry.catalogue import Catalogue
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.content import Image, ImageItem

__all__ = ["bedrock_adapters"]
WEATHER = ToolDef(name="get weather")


def test_an_answer_arrives_in_its_deltas_with_usage_at_the_end(bedrock_adapters: BedrockAdapters) -> None:
    with BedrockServer([frames.text_answer("a", "b")]) as server:
        assert bedrock_adapters.streamed(server) == [
            TextChunk("a"),
            TextChunk("b"),
            Inferred(
                CompletionMessage(content="ab", stop_reason="end_of_turn"),
                TokenUsage(prompt_tokens=10, completion_tokens=2, total_tokens=12),
            ),
        ]
    assert server.model_requests == [(MODEL, "converse-stream")]
    assert server.requests[0]["messages"] == [{"role": "user", "content": [{"text": QUESTION.content}]}]
    assert server.headers[0]["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")


@pytest.mark.parametrize("split", [1, 2, 7, 100_000])
def test_an_answer_cut_into_any_pieces_is_the_same(bedrock_adapters: BedrockAdapters, split: int) -> None:
    answer = (
        frames.START,
        *frames.reasoning("Hm ", "ü😀."),
        *frames.text("ü😀", "!"),
        *frames.call("get_weather", '{"city": ', '"Ålesund"}'),
        *frames.call("get_weather", index=2),
        *frames.ending("tool_use"),
    )
    with BedrockServer([answer], split=split) as server:
        *chunks, inferred = bedrock_adapters.streamed(server, request(tools=(WEATHER,)))
    assert isinstance(inferred, Inferred)
    first, second = inferred.message.tool_calls
    assert chunks == [
        ReasoningChunk("Hm "),
        ReasoningChunk("ü😀."),
        TextChunk("ü😀"),
        TextChunk("!"),
        CallBegun(0, first.call_id, "get weather"),
        ArgumentsChunk(0, '{"city": '),
        ArgumentsChunk(0, '"Ålesund"}'),
        CallBegun(1, second.call_id, "get weather"),
        ArgumentsChunk(1, "{}"),
    ]
    assert inferred.reasoning == "Hm ü😀."
    found = [(call.tool_name, call.arguments) for call in inferred.message.tool_calls]
    assert found == [("get weather", {"city": "Ålesund"}), ("get weather", {})]
    assert len({call.call_id for call in inferred.message.tool_calls}) == 2


def test_the_first_delta_is_out_before_the_model_continues(bedrock_adapters: BedrockAdapters) -> None:
    has_arrived = threading.Event()

    def until_it_arrived() -> Iterator[Item]:
        yield frames.START
        yield frames.text("a")[0]
        while not has_arrived.is_set():
            yield Pause(0.005)
        yield from (*frames.text("b"), *frames.ending())

    with BedrockServer(lambda body: until_it_arrived()) as server:
        stream = bedrock_adapters.inference(server.url).stream(request())
        assert next(stream) == TextChunk("a")
        has_arrived.set()
        assert texts_of(list(stream)) == ["b"]


def test_a_tool_loop_sends_the_call_and_its_answer_in_bedrocks_shapes(bedrock_adapters: BedrockAdapters) -> None:
    with BedrockServer([frames.call_answer(("get_weather", "{}")), frames.text_answer("rain")]) as server:
        called = bedrock_adapters.streamed(server, request(tools=(WEATHER,)))[-1].message
        answer = ToolResponseMessage(call_id=called.tool_calls[0].call_id, content="4 degrees")
        second = bedrock_adapters.streamed(server, request(QUESTION, called, answer, tools=(WEATHER,)))[-1]
    assert second.message.content == "rain"
    _, assistant, user = server.requests[1]["messages"]
    use = {"toolUseId": "tooluse_get_weather_0", "name": "get_weather", "input": {}}
    assert assistant == {"role": "assistant", "content": [{"toolUse": use}]}
    result = {"toolUseId": "tooluse_get_weather_0", "content": [{"text": "4 degrees"}]}
    assert user == {"role": "user", "content": [{"toolResult": result}]}


def test_a_call_of_a_tool_that_was_not_offered_is_not_passed_on(bedrock_adapters: BedrockAdapters) -> None:
    answer = (frames.START, *frames.text("well"), *frames.call("f", "{}"), *frames.ending("tool_use"))
    with BedrockServer([answer]) as server:
        inferred = bedrock_adapters.streamed(server)[-1]
    assert (inferred.message.content, inferred.message.tool_calls) == ("well", ())


def test_a_call_id_that_the_history_has_already_is_replaced(bedrock_adapters: BedrockAdapters) -> None:
    with BedrockServer([frames.call_answer(("f", "{}"))] * 2) as server:
        tools = (ToolDef(name="f"),)
        called = bedrock_adapters.streamed(server, request(tools=tools))[-1].message
        answer = ToolResponseMessage(call_id=called.tool_calls[0].call_id, content="done")
        again = bedrock_adapters.streamed(server, request(QUESTION, called, answer, tools=tools))[-1].message
    assert called.tool_calls[0].call_id == "tooluse_f_0"
    assert again.tool_calls[0].call_id.startswith("call_")


def test_a_model_that_does_not_stream_is_called_by_converse(bedrock_adapters: BedrockAdapters) -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"x": 1}}}
    thoughts = {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}}
    answer = frames.whole_answer([thoughts, {"text": "hi"}, use], "tool_use")
    options = BedrockOptions(is_streaming=False)
    with BedrockServer([answer]) as server:
        reasoning, text, *pieces, inferred = bedrock_adapters.streamed(
            server, request(tools=(ToolDef(name="f"),)), options
        )
    assert server.model_requests == [(MODEL, "converse")]
    assert (reasoning, text) == (ReasoningChunk("Hm"), TextChunk("hi"))
    assert pieces == [CallBegun(0, "t1", "f"), ArgumentsChunk(0, '{"x": 1}')]
    assert [call.arguments for call in inferred.message.tool_calls] == [{"x": 1}]
    assert inferred.usage.total_tokens == 12


def test_every_request_field_passes_botocores_own_checks(bedrock_adapters: BedrockAdapters) -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
    question = request(
        SystemMessage(content="be kind"),
        UserMessage(content=ImageItem(image=Image(data=png))),
        tools=(WEATHER,),
        tool_choice="get weather",
        sampling=SamplingParams(strategy=TopK(top_k=4), max_tokens=7, stop=("x",)),
        response_format=JsonSchemaFormat(json_schema={"type": "object"}),
    )
    options = BedrockOptions(has_cache_points=True, guardrail_id="gr1", guardrail_version="1")
    cache_point = {"cachePoint": {"type": "default"}}
    schema = {"type": "object", "properties": {}, "required": []}
    with BedrockServer([frames.text_answer("a"), frames.whole_answer([{"text": "a"}])]) as server:
        bedrock_adapters.streamed(server, question, options)
        bedrock_adapters.streamed(server, question, replace(options, is_streaming=False))
    assert server.requests[0] == server.requests[1]
    assert server.requests[0] == {
        "system": [{"text": "be kind"}, cache_point],
        "messages": [{"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": png}}}]}],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "get_weather", "inputSchema": {"json": schema}}}, cache_point],
            "toolChoice": {"tool": {"name": "get_weather"}},
        },
        "inferenceConfig": {"maxTokens": 7, "stopSequences": ["x"]},
        "additionalModelRequestFields": {"top_k": 4},
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": '{"type": "object"}', "name": "response"}},
            }
        },
        "guardrailConfig": {"guardrailIdentifier": "gr1", "guardrailVersion": "1"},
    }


def test_a_slow_answer_that_is_never_silent_for_long_is_no_timeout(bedrock_adapters: BedrockAdapters) -> None:
    items = [item for _ in range(6) for item in (frames.text("a")[0], Pause(0.1))]
    with BedrockServer([(frames.START, *items, *frames.ending())]) as server:
        assert len(texts_of(list(bedrock_adapters.inference(server.url, timeout_s=0.4).stream(request())))) == 6


def test_one_connection_serves_request_after_request_whatever_the_answers(bedrock_adapters: BedrockAdapters) -> None:
    refused = frames.refusal(400, "ValidationException", "no")
    whole = frames.text_answer("a")
    with BedrockServer([whole, refused, refused, frames.call_answer(("f", "{}")), whole]) as server:
        inference = bedrock_adapters.inference(server.url)
        list(inference.stream(request()))
        for _ in range(2):
            with pytest.raises(ModelFailed):
                list(inference.stream(request()))
        for item in inference.stream(request(tools=(ToolDef(name="f"),))):
            if isinstance(item, Inferred):
                break
        list(inference.stream(request()))
    assert len(server.requests) == 5
    assert server.connections == 1


def test_closing_early_drops_the_connection_and_the_next_request_gets_another(
    bedrock_adapters: BedrockAdapters,
) -> None:
    endless = (item for _ in range(1000) for item in (frames.text("a")[0], Pause(0.005)))
    with BedrockServer([endless, frames.text_answer("b")]) as server:
        inference = bedrock_adapters.inference(server.url)
        stream = inference.stream(request())
        next(stream)
        stream.close()
        assert texts_of(list(inference.stream(request()))) == ["b"]
        deadline = time.monotonic() + 2
        while server.open_connections > 1 and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        assert server.open_connections == 1
    assert server.connections == 2


def test_a_response_left_open_after_its_answer_does_not_delay_the_caller(
    bedrock_adapters: BedrockAdapters,
) -> None:
    with BedrockServer([(*frames.text_answer("a"), Pause(20))]) as server:
        started = time.monotonic()
        assert texts_of(bedrock_adapters.streamed(server)) == ["a"]
        assert time.monotonic() - started < 15


def test_a_kept_connection_that_went_stale_is_replaced(bedrock_adapters: BedrockAdapters) -> None:
    with BedrockServer([frames.text_answer("a")]) as server:
        inference = bedrock_adapters.inference(server.url)
        assert texts_of(list(inference.stream(request()))) == ["a"]
    again = BedrockServer([frames.text_answer("b")])
    again.port = server.port
    with again:
        assert texts_of(list(inference.stream(request()))) == ["b"]


def test_many_threads_each_get_their_own_answer(bedrock_adapters: BedrockAdapters) -> None:
    def echo(body: dict) -> Answer:
        return frames.text_answer(*(body["messages"][0]["content"][0]["text"] for _ in range(10)))

    with BedrockServer(echo) as server:
        inference = bedrock_adapters.inference(server.url)

        def texts_for(number: int) -> set[str]:
            return set(texts_of(list(inference.stream(request(UserMessage(content=f"n{number}"))))))

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(texts_for, range(64))) == [{f"n{number}"} for number in range(64)]


def test_a_provider_of_the_operators_file_is_called_by_its_options(
    bedrock_adapters: BedrockAdapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    guardrail = {"identifier": "gr1", "version": "2"}
    entry = {"type": "bedrock", "region": "eu-west-1", "streams": False, "caches": True, "guardrail": guardrail}
    catalogue = Catalogue.model_validate({"providers": {"p": entry}, "default_provider": "p"})
    with BedrockServer([frames.whole_answer([{"text": "a"}])]) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
        inference = build_inference(catalogue, ProviderDeps(5, lambda name, entry: None, AwsClients))
        assert texts_of(list(inference.stream(request(SystemMessage(content="be kind"), QUESTION)))) == ["a"]
    assert server.model_requests == [(MODEL, "converse")]
    assert "/eu-west-1/bedrock/" in server.headers[0]["authorization"]
    assert server.requests[0]["system"][-1] == {"cachePoint": {"type": "default"}}
    assert server.requests[0]["guardrailConfig"] == {"guardrailIdentifier": "gr1", "guardrailVersion": "2"}


def test_the_models_are_those_that_the_operator_named(bedrock_adapters: BedrockAdapters) -> None:
    assert bedrock_adapters.inference("http://127.0.0.1:1", BedrockOptions(models=("a", "b"))).models() == ("a", "b")
