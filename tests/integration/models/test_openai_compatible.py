"""OpenAICompatibleInference against a loopback model server.

Covers: adapters/models/openai/openai_compatible, adapters/models/openai/openai_answer
"""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fakes.models.openai_answers import (
    DONE,
    Answer,
    HttpAnswer,
    Item,
    Pause,
    call_answer,
    chunk,
    ending,
    text_answer,
    text_chunk,
)
from tests.fakes.models.openai_server import ModelServer
from tests.support.models.model_client import KEY, QUESTION, request, streamed_answer, texts_of
from turnstone.adapters.models.openai.openai_compatible import TEXTS_AT_ONCE, OpenAICompatibleInference
from turnstone.adapters.models.openai.openai_wire import GrammarServer
from turnstone.adapters.models.prompted.prompted_tools import PromptedTools
from turnstone.domain.agents.agents import GrammarFormat
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage, ToolResponseMessage, UserMessage
from turnstone.domain.models.requests import (
    ArgumentsChunk,
    CallBegun,
    Inferred,
    ReasoningChunk,
    TextChunk,
    TextChunks,
    call_pieces,
)
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.usage.usage import TokenUsage


def test_an_answer_arrives_in_its_chunks_with_usage_at_the_end():
    with ModelServer([text_answer("a", "b")]) as server:
        assert streamed_answer(server) == [
            TextChunk("a"),
            TextChunk("b"),
            Inferred(
                CompletionMessage(content="ab", stop_reason="end_of_turn"),
                TokenUsage(prompt_tokens=10, completion_tokens=2, total_tokens=12),
            ),
        ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.requests[0]["messages"] == [{"role": "user", "content": QUESTION.content}]


@pytest.mark.parametrize("split", [None, 7, 1_000, 100_000])
def test_texts_that_arrive_together_are_one_batch_of_the_same_texts(split: int | None):
    words = [f"wörd-{number} " for number in range(200)]
    with ModelServer([text_answer(*words)] * 2, split=split) as server:
        inference = OpenAICompatibleInference(server.url)
        *singles, inferred = inference.stream(request())
        *batches, same = inference.stream(request(takes_batches=True))
    assert [item.text for item in singles] == words
    assert {type(item) for item in batches} == {TextChunks}
    assert [text for batch in batches for text in batch.texts] == words
    assert max(len(batch.texts) for batch in batches) <= TEXTS_AT_ONCE
    assert same == inferred
    if split is None:
        assert len(batches) == -(-len(words) // TEXTS_AT_ONCE)


def test_a_failure_within_a_batch_comes_after_the_texts_before_it():
    with ModelServer([(text_chunk("a"), text_chunk("b"), {"error": {"message": "full"}}, text_chunk("c"))]) as server:
        answer = iter(OpenAICompatibleInference(server.url).stream(request(takes_batches=True)))
        assert next(answer) == TextChunks(("a", "b"))
        with pytest.raises(ModelFailed, match="while it answered: full"):
            next(answer)


def test_an_answer_with_calls_and_reasoning_is_the_same_in_batches():
    answer = ({"choices": [{"delta": {"reasoning": "hm"}}]}, text_chunk("a"), *call_answer(("f", '{"x": 1}')))
    with ModelServer([answer] * 2) as server:
        inference = OpenAICompatibleInference(server.url)
        *_, inferred = inference.stream(request())
        first, *_, same = inference.stream(request(takes_batches=True))
    assert first == TextChunks(("a",))
    assert same == inferred
    assert same.reasoning == "hm"


def test_logprobs_are_not_batched():
    with ModelServer([text_answer("a", "b")]) as server:
        items = list(
            OpenAICompatibleInference(server.url).stream(request(takes_batches=True, extras={"logprobs": True}))
        )
    assert [item.text for item in items[:-1]] == ["a", "b"]


def test_a_prompt_for_a_model_without_native_tools_takes_no_batches():
    question = request(tools=(ToolDef(name="f"),), tool_prompt_format="json", takes_batches=True)
    with ModelServer([text_answer("a", "b")]) as server:
        items = list(PromptedTools(OpenAICompatibleInference(server.url)).stream(question))
    assert texts_of(items) == ["a", "b"]


@pytest.mark.parametrize("split", [1, 2, 7, 100_000])
def test_an_answer_cut_into_any_pieces_is_the_same(split: int):
    items = (text_chunk("ü😀"), *call_answer(("f", '{"x": "ü"}'), ("g", "{}")))
    raw = tuple(item if isinstance(item, bytes) else json.dumps(item, ensure_ascii=False) for item in items)
    sent = tuple(item if isinstance(item, bytes) else f"data: {item}\r\n\r\n".encode() for item in raw)
    with ModelServer([sent], split=split) as server:
        text, *pieces, inferred = streamed_answer(server)
    assert text == TextChunk("ü😀")
    assert pieces == list(call_pieces(inferred.message.tool_calls))
    found = [(call.tool_name, call.arguments) for call in inferred.message.tool_calls]
    assert found == [("f", {"x": "ü"}), ("g", {})]
    assert inferred.usage.total_tokens == 11


def test_arguments_split_over_chunks_without_index_or_id_are_one_call():
    pieces_sent = [("f", '{"x'), (None, '": '), (None, "1}")]
    parts = [{"function": {"name": name, "arguments": arguments}} for name, arguments in pieces_sent]
    with ModelServer([(*(chunk({"tool_calls": [part]}) for part in parts), *ending("tool_calls"))]) as server:
        *pieces, inferred = streamed_answer(server)
    (call,) = inferred.message.tool_calls
    assert (call.tool_name, call.arguments) == ("f", {"x": 1})
    assert pieces == [CallBegun(0, call.call_id, "f"), *(ArgumentsChunk(0, text) for _, text in pieces_sent)]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("split", [1, 7, 100_000])
def test_reasoning_and_fragments_of_arguments_arrive_as_they_are_cut(name: str, split: int):
    fragments = ['{"city": "\\u00', "c5lesund \\ud83d", "\\ude00 \ud83d", '\ude00"', "}"]
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    items = (
        chunk({"role": "assistant", "content": ""}),
        chunk({name: "Hm \ud83d"}),
        chunk({name: "\ude00."}),
        text_chunk("Let me "),
        chunk({"tool_calls": [first]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}) for text in fragments),
        *ending("tool_calls"),
    )
    with ModelServer([items], split=split) as server:
        *parts, inferred = streamed_answer(server)
    assert parts == [
        ReasoningChunk("Hm "),
        ReasoningChunk("😀."),
        TextChunk("Let me "),
        CallBegun(0, "c1", "f"),
        ArgumentsChunk(0, '{"city": "\\u00'),
        ArgumentsChunk(0, "c5lesund \\ud83d"),
        ArgumentsChunk(0, "\\ude00 "),
        ArgumentsChunk(0, '😀"'),
        ArgumentsChunk(0, "}"),
    ]
    assert inferred.reasoning == "Hm 😀."
    (call,) = inferred.message.tool_calls
    assert call.arguments == {"city": "Ålesund 😀 😀"}
    assert inferred.message.content == "Let me "


def test_the_first_chunk_is_out_before_the_server_continues():
    has_arrived = threading.Event()

    def until_it_arrived() -> Iterator[Item]:
        yield text_chunk("a")
        while not has_arrived.is_set():
            yield Pause(0.005)
        yield from text_answer("b")

    with ModelServer(lambda body: until_it_arrived()) as server:
        stream = OpenAICompatibleInference(server.url, None, timeout_s=2).stream(request())
        assert next(stream) == TextChunk("a")
        has_arrived.set()
        assert texts_of(list(stream)) == ["b"]
    assert "authorization" not in server.headers[0]


def test_a_tool_loop_passes_the_rules_of_a_strict_server_and_a_dangling_call_does_not():
    tools = (ToolDef(name="f"),)
    with ModelServer() as server:
        called = streamed_answer(server, request(model="tool:f", tools=tools))[-1].message
        response = ToolResponseMessage(call_id=called.tool_calls[0].call_id, content="done")
        second = streamed_answer(server, request(QUESTION, called, response, model="tool:f", tools=tools))
        assert second[-1].message.content == "ok"
        with pytest.raises(ModelFailed, match=r"HTTP 400.*must be followed by tool messages"):
            streamed_answer(server, request(QUESTION, called, model="tool:f", tools=tools))


def test_a_call_id_that_the_history_has_already_is_replaced():
    with ModelServer([call_answer(("f", "{}")), call_answer(("f", "{}"))]) as server:
        called = streamed_answer(server)[-1].message
        response = ToolResponseMessage(call_id=called.tool_calls[0].call_id, content="done")
        again = streamed_answer(server, request(QUESTION, called, response))[-1].message
    assert called.tool_calls[0].call_id == "call-f-0"
    assert again.tool_calls[0].call_id.startswith("call_")


def test_a_kept_connection_that_went_stale_is_replaced():
    with ModelServer([text_answer("a")]) as server:
        inference = OpenAICompatibleInference(server.url, None)
        assert texts_of(list(inference.stream(request()))) == ["a"]
    with ModelServer([text_answer("b")], port=server.port):
        assert texts_of(list(inference.stream(request()))) == ["b"]


def test_a_slow_answer_that_is_never_silent_for_long_is_no_timeout():
    items = [item for _ in range(6) for item in (text_chunk("a"), Pause(0.1))]
    with ModelServer([(*items, *ending("stop"))]) as server:
        assert len(texts_of(streamed_answer(server, timeout_s=0.4))) == 6


def test_a_server_that_does_not_stream_is_read_too():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [call]}}
    body = {"choices": [{**choice, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3}}
    with ModelServer([HttpAnswer(200, body)]) as server:
        text, *pieces, inferred = streamed_answer(server)
    assert text == TextChunk("hi")
    assert pieces == [CallBegun(0, "c", "f"), ArgumentsChunk(0, '{"x":1}')]
    assert [call.arguments for call in inferred.message.tool_calls] == [{"x": 1}]
    assert inferred.usage.prompt_tokens == 3


def test_events_with_the_wrong_content_type_are_read():
    body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n' + DONE
    with ModelServer([HttpAnswer(200, body)]) as server:
        assert texts_of(streamed_answer(server)) == ["hi"]


def test_one_connection_serves_request_after_request_whatever_the_answers():
    refused = HttpAnswer(400, {"error": "no"})
    with ModelServer([text_answer("a"), refused, refused, call_answer(("f", "{}")), text_answer("b")]) as server:
        inference = OpenAICompatibleInference(server.url, None)
        list(inference.stream(request()))
        for _ in range(2):
            with pytest.raises(ModelFailed):
                list(inference.stream(request()))
        for item in inference.stream(request()):
            if isinstance(item, Inferred):
                break
        list(inference.stream(request()))
        assert inference.models()[0] == "instant"
    assert len(server.requests) == 5
    assert server.connections == 1


def test_closing_early_drops_the_connection_and_the_next_request_gets_another():
    endless = (item for _ in range(1000) for item in (text_chunk("a"), Pause(0.005)))
    with ModelServer([endless, text_answer("b")]) as server:
        inference = OpenAICompatibleInference(server.url, None)
        stream = inference.stream(request())
        next(stream)
        stream.close()
        assert texts_of(list(inference.stream(request()))) == ["b"]
        deadline = time.monotonic() + 2
        while server.open_connections > 1 and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        assert server.open_connections == 1
    assert server.connections == 2


def test_a_response_left_open_after_its_answer_does_not_delay_the_caller():
    with ModelServer([(*text_answer("a"), Pause(20))]) as server:
        started = time.monotonic()
        assert texts_of(streamed_answer(server)) == ["a"]
        assert time.monotonic() - started < 15


def test_many_threads_each_get_their_own_answer():
    def echo(body: dict) -> Answer:
        return text_answer(*(body["messages"][0]["content"] for _ in range(20)))

    with ModelServer(echo) as server:
        inference = OpenAICompatibleInference(server.url, None)

        def texts_for(number: int) -> set[str]:
            return set(texts_of(list(inference.stream(request(UserMessage(content=f"n{number}"))))))

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(texts_for, range(64))) == [{f"n{number}"} for number in range(64)]


def test_the_models_are_those_the_server_lists():
    with ModelServer(listed=HttpAnswer(200, {"data": [{"id": "a"}, {"id": "b"}]})) as server:
        assert OpenAICompatibleInference(server.url + "/", None).models() == ("a", "b")


@pytest.mark.parametrize(
    ("server_kind", "field"), [("vllm", "structured_outputs"), ("llama.cpp", "grammar"), (None, "")]
)
def test_a_grammar_is_sent_to_servers_configured_to_take_one(server_kind: GrammarServer | None, field: str):
    grammar = GrammarFormat(bnf={"grammar": 'root ::= "yes"'})
    with ModelServer([text_answer("yes")]) as server:
        inference = OpenAICompatibleInference(server.url, None, grammar_server=server_kind)
        question = request()._replace(response_format=grammar)
        assert ("grammar" in inference.capabilities()) == (server_kind is not None)
        if server_kind is None:
            with pytest.raises(ModelFailed, match="no grammar"):
                list(inference.stream(question))
        else:
            assert texts_of(list(inference.stream(question))) == ["yes"]
            assert 'root ::= "yes"' in str(server.requests[0][field])


def test_prompted_tools_leave_a_strict_server_nothing_to_refuse():
    tools = (ToolDef(name="f"),)
    with ModelServer([text_answer("<function=f>", '{"x": 1}</function>'), text_answer("done")]) as server:
        inference = PromptedTools(OpenAICompatibleInference(server.url, None))
        question = request(tools=tools)._replace(tool_prompt_format="function_tag")
        *pieces, inferred = inference.stream(question)
        (call,) = inferred.message.tool_calls
        assert pieces == [CallBegun(0, call.call_id, "f"), ArgumentsChunk(0, '{"x": 1}')]
        assert (call.tool_name, call.arguments) == ("f", {"x": 1})
        second = (*question.messages, inferred.message, ToolResponseMessage(call_id=call.call_id, content="42"))
        assert texts_of(list(inference.stream(question._replace(messages=second)))) == ["done"]
    assert [message["role"] for message in server.requests[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert "tools" not in server.requests[1]
