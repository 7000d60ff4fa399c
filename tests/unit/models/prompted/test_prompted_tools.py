"""Prompted tools: the request to a model without tools of its own, and the reading of its answer.

Covers: adapters/models/prompted/prompted_tools, adapters/models/prompted/calls,
  adapters/models/prompted/conversation, adapters/models/prompted/instructions
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.fakes.models.scripted import USAGE, Scripted, ScriptedInference, ScriptedReply, call, cut_off
from turnstone.adapters.models.prompted.prompted_tools import PromptedTools
from turnstone.domain.agents.agents import ToolPromptFormat
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.models.requests import InferenceRequest, Inferred, TextChunk
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolParameter
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url

CITY = ToolParameter(name="city", parameter_type="string", description="Which city.")
WEATHER = ToolDef(name="get_weather", description="Tell the weather.", parameters=(CITY,))
TIME = ToolDef(name="get_time")
HELLO = UserMessage(content="hello")
BRIEF = SystemMessage(content="Be brief.")
REQUEST = InferenceRequest(model="m", messages=(BRIEF, HELLO), tools=(WEATHER, TIME), tool_prompt_format="json")
CALLED = '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}'
WRITTEN: dict[ToolPromptFormat, str] = {
    "json": CALLED,
    "function_tag": '<function=get_weather>{"city": "Paris"}</function>',
    "python_list": '[get_weather(city="Paris")]',
}
FORMATS = sorted(WRITTEN)
PLACEHOLDERS = ["{{ function_description }}", "{{function_definitions}}", "{{ function_definitions }}"]


def exchange(request: InferenceRequest, answer: Scripted = "ok") -> tuple[InferenceRequest, list[TextChunk | Inferred]]:
    """Return the request to the wrapped model, and the parts of the answer."""
    inference = ScriptedInference([answer])
    parts = list(PromptedTools(inference).stream(request))
    (seen,) = inference.requests
    return seen, parts


def system_of(request: InferenceRequest, **changes: object) -> str:
    first = exchange(request._replace(**changes))[0].messages[0]  # type: ignore[arg-type]
    return str(first.content) if isinstance(first, SystemMessage) else ""


def answered(answer: Scripted, request: InferenceRequest = REQUEST) -> CompletionMessage:
    last = exchange(request, answer)[1][-1]
    assert isinstance(last, Inferred)
    return last.message


def texts(parts: Sequence[TextChunk | Inferred]) -> list[str]:
    return [item.text for item in parts if isinstance(item, TextChunk)]


def test_without_a_format_the_question_and_the_answer_are_left_alone() -> None:
    request = REQUEST._replace(tool_prompt_format=None, tool_choice="required")
    seen, parts = exchange(request, ScriptedReply(texts=(CALLED,), calls=(call("get_time", "c1"),)))
    assert seen == request
    assert parts[-1] == Inferred(
        CompletionMessage(content=CALLED, stop_reason="end_of_turn", tool_calls=(call("get_time", "c1"),)), USAGE
    )


@pytest.mark.parametrize("form", FORMATS)
def test_tools_are_described_behind_the_instructions_and_not_offered_natively(form: ToolPromptFormat) -> None:
    seen, _ = exchange(REQUEST._replace(tool_prompt_format=form))
    assert (seen.tools, seen.tool_choice, seen.tool_prompt_format) == ((), "auto", None)
    system = str(seen.messages[0].content)
    assert system.startswith("Be brief.\n\n")
    described = [json.loads(line) for line in system.splitlines() if line.startswith('{"name"')]
    assert [tool["name"] for tool in described] == ["get_weather", "get_time"]
    assert described[0]["description"] == "Tell the weather."
    assert described[0]["parameters"]["properties"]["city"] == {"type": "string", "description": "Which city."}
    assert seen.messages[1:] == (HELLO,)


def test_each_format_is_explained_in_its_own_way() -> None:
    prompts = [system_of(REQUEST, tool_prompt_format=form) for form in FORMATS]
    assert len(set(prompts)) == 3


def test_without_instructions_the_tools_are_described_all_the_same() -> None:
    assert "get_weather" in system_of(REQUEST._replace(messages=(HELLO,)))


def test_without_tools_the_prompt_is_unchanged() -> None:
    seen, parts = exchange(REQUEST._replace(tools=()), CALLED)
    assert seen.messages == REQUEST.messages
    assert texts(parts) == [CALLED]


def test_tools_that_must_not_be_chosen_are_neither_described_nor_read() -> None:
    seen, parts = exchange(REQUEST._replace(tool_choice="none"), CALLED)
    assert seen.messages == REQUEST.messages
    assert texts(parts) == [CALLED]


@pytest.mark.parametrize(("choice", "instruction"), [("required", "must call at least one"), ("get_time", "get_time;")])
@pytest.mark.parametrize("behavior", ["append", "replace"])
def test_a_tool_choice_is_in_the_prompt_and_an_answer_without_a_call_is_an_answer(
    choice: str, instruction: str, behavior: str
) -> None:
    assert instruction in system_of(REQUEST, tool_choice=choice, system_message_behavior=behavior)
    assert instruction not in system_of(REQUEST, system_message_behavior=behavior)
    assert answered("no", REQUEST._replace(tool_choice=choice)).content == "no"


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_instructions_that_replace_ours_stand_alone_with_the_descriptions(placeholder: str) -> None:
    instructions = SystemMessage(content=f"Call like this: X.\n{placeholder}\nGood luck, {{{{ name }}}}.")
    request = REQUEST._replace(messages=(instructions, HELLO), system_message_behavior="replace")
    system = system_of(request)
    assert system.startswith("Call like this: X.\n")
    assert system.endswith("\nGood luck, {{ name }}.")
    assert system.count('"name": "get_weather"') == 1
    assert placeholder not in system
    assert "type" not in system.split("\n")[-1]
    assert placeholder in system_of(request._replace(system_message_behavior="append"))


def test_instructions_without_a_placeholder_replace_the_descriptions_too() -> None:
    assert system_of(REQUEST, system_message_behavior="replace") == "Be brief."


def test_no_instructions_replace_nothing() -> None:
    request = REQUEST._replace(messages=(HELLO,))
    assert system_of(request) == system_of(request, system_message_behavior="replace")


@pytest.mark.parametrize("form", FORMATS)
def test_a_history_is_sent_without_calls(form: ToolPromptFormat) -> None:
    calls = (call("get_weather", "c1", city="Paris"),)
    history: tuple[Message, ...] = (
        HELLO,
        CompletionMessage(content="I look.", stop_reason="end_of_turn", tool_calls=calls),
        ToolResponseMessage(call_id="c1", content="sunny"),
        CompletionMessage(content="It is sunny.", stop_reason="end_of_turn"),
    )
    seen, _ = exchange(REQUEST._replace(messages=history, tool_prompt_format=form))
    assert seen.messages[1:] == (
        HELLO,
        CompletionMessage(content=f"I look.\n{WRITTEN[form]}", stop_reason="end_of_turn"),
        UserMessage(content="get_weather returned:\nsunny"),
        history[3],
    )


def test_results_of_several_tools_are_one_message_with_their_images() -> None:
    image = ImageItem(image=Image(url=Url(uri="https://example.org/a.png")))
    calls = (call("get_weather", "c1"), call("get_time", "c2"))
    history: tuple[Message, ...] = (
        CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=calls),
        ToolResponseMessage(call_id="c1", content=(TextItem(text="sunny"), image)),
        ToolResponseMessage(call_id="c2", content="noon"),
        ToolResponseMessage(call_id="gone", content="what"),
    )
    message = exchange(REQUEST._replace(messages=history))[0].messages[-1]
    assert isinstance(message, UserMessage)
    assert message.content == (
        TextItem(text="get_weather returned:"),
        TextItem(text="sunny"),
        image,
        TextItem(text="get_time returned:"),
        TextItem(text="noon"),
        TextItem(text="A function returned:"),
        TextItem(text="what"),
    )


def test_a_call_whose_arguments_were_no_object_is_shown_without_them() -> None:
    broken = ToolCall(call_id="c1", tool_name="get_time", arguments="{", arguments_json="{")
    history = (CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(broken,)),)
    seen, _ = exchange(REQUEST._replace(messages=(*history, ToolResponseMessage(call_id="c1", content="no"))))
    assert seen.messages[1].content == '{"type": "function", "name": "get_time", "parameters": {}}'


@pytest.mark.parametrize("form", FORMATS)
def test_a_call_in_the_text_is_a_call_and_no_text(form: ToolPromptFormat) -> None:
    request = REQUEST._replace(tool_prompt_format=form)
    _, parts = exchange(
        request, ScriptedReply(texts=("Let me ", f"see.\n{WRITTEN[form]}"[:20], f"see.\n{WRITTEN[form]}"[20:]))
    )
    assert "".join(texts(parts)) == "Let me see."
    assert isinstance(parts[-1], Inferred)
    message = parts[-1].message
    (called,) = message.tool_calls
    assert (message.content, message.stop_reason, parts[-1].usage) == ("Let me see.", "end_of_turn", USAGE)
    assert (called.tool_name, called.arguments) == ("get_weather", {"city": "Paris"})
    assert json.loads(called.arguments_json or "") == {"city": "Paris"}


def test_calls_have_new_ids_that_differ() -> None:
    ids = [each.call_id for _ in range(2) for each in answered(f"{CALLED}\n{CALLED}").tool_calls]
    assert len(set(ids)) == 4


def test_words_are_emitted_as_they_arrive() -> None:
    parts = exchange(REQUEST, ScriptedReply(texts=("one", " two")))[1]
    assert texts(parts) == ["one", " two"]
    assert parts[-1] == Inferred(CompletionMessage(content="one two", stop_reason="end_of_turn"), USAGE)


def test_a_truncated_answer_is_marked_and_its_half_call_can_not_be_run() -> None:
    message = answered(cut_off(CALLED[:-3]))
    assert message.stop_reason == "out_of_tokens"
    assert [type(each.arguments) for each in message.tool_calls] == [str]


def test_unexpected_native_calls_are_kept_under_ids_of_their_own() -> None:
    history = (
        CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call("get_time", "c1"),)),
        ToolResponseMessage(call_id="c1", content="noon"),
    )
    scripted = ScriptedReply(texts=(CALLED,), calls=(call("get_time", "c1"), call("get_time", "c2")))
    first, second, third = answered(scripted, REQUEST._replace(messages=(HELLO, *history))).tool_calls
    assert (first.tool_name, second, third.tool_name) == ("get_time", call("get_time", "c2"), "get_weather")
    assert first.call_id != "c1"


def test_models_and_capabilities_are_those_of_the_provider() -> None:
    inference = PromptedTools(ScriptedInference([]))
    assert (inference.models(), inference.capabilities()) == (("scripted",), {"grammar"})
