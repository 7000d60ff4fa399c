"""The request to the model: instructions, the turns before, this turn so far, and the tools on offer.

Covers: engine/prompt
"""

from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.turn_loop import CLIENT_CALL, CONFIG, PRICE, Engine, answered_by_client, new_turn
from turnstone.domain.agents.agents import AgentConfig, JsonSchemaFormat, SamplingParams, ToolConfig, TopK
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.sessions.context import ended_messages, tokens_of
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.turns import TurnState
from turnstone.engine.prompt import fixed_tokens

EARLIER: tuple[Message, ...] = (
    UserMessage(content="good morning"),
    CompletionMessage(content="morning", stop_reason="end_of_turn"),
)
SYSTEM = SystemMessage(content="Be brief.")


def configured(**fields: object) -> AgentConfig:
    return CONFIG.model_copy(update=fields)


def choosing(tool_choice: str) -> AgentConfig:
    return configured(tool_config=ToolConfig(tool_choice=tool_choice))


def request_for(config: AgentConfig, state: TurnState, history: tuple[Message, ...] = ()) -> InferenceRequest:
    engine = Engine("done", config=config, history=history)
    engine.run(state)
    (request,) = engine.inference.requests
    return request


def with_context(text: str) -> TurnState:
    state = new_turn()
    question = UserMessage(content="hello", context=text)
    return state.model_copy(update={"turn": state.turn.model_copy(update={"input_messages": (question,)})})


def test_the_question_is_instructions_then_history_then_the_turn() -> None:
    messages = (SYSTEM, *EARLIER, UserMessage(content="hello"))
    assert messages == request_for(CONFIG, new_turn(), EARLIER).messages


def test_without_instructions_there_is_no_system_message() -> None:
    assert (UserMessage(content="hello"),) == request_for(configured(instructions=""), new_turn()).messages


def test_the_turn_so_far_is_its_messages_its_inferences_and_their_answers() -> None:
    engine = Engine(PRICE, "done")
    engine.run(new_turn())
    first = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(PRICE,))
    answer = ToolResponseMessage(call_id="c1", content="3 coins")
    assert (SYSTEM, UserMessage(content="hello"), first, answer) == engine.inference.requests[1].messages


def test_context_of_a_user_message_is_shown_in_its_turn_and_never_after() -> None:
    engine = Engine(PRICE, "done")
    ending = engine.run(with_context("the shop is open"))
    shown = UserMessage(content="hello", context="the shop is open")
    assert [shown, shown] == [request.messages[1] for request in engine.inference.requests]
    messages = ended_messages(ending.state)
    assert [UserMessage(content="hello")] == [message for message in messages if isinstance(message, UserMessage)]


def test_model_sampling_and_response_format_are_those_of_the_configuration() -> None:
    fields = {
        "model": "other",
        "sampling_params": SamplingParams(strategy=TopK(top_k=3)),
        "response_format": JsonSchemaFormat(json_schema={"type": "object"}),
    }
    request = request_for(configured(**fields), new_turn())
    assert tuple(fields.values()) == (request.model, request.sampling, request.response_format)


@pytest.mark.parametrize("behavior", ["append", "replace"])
def test_the_format_of_prompted_tools_is_that_of_the_configuration(behavior: Any) -> None:
    tool_config = ToolConfig(tool_prompt_format="python_list", system_message_behavior=behavior)
    request = request_for(configured(tool_config=tool_config), new_turn())
    assert ("python_list", behavior) == (request.tool_prompt_format, request.system_message_behavior)
    assert request_for(CONFIG, new_turn()).tool_prompt_format is None


def test_the_tools_on_offer_are_those_of_the_client_and_of_the_server() -> None:
    assert [tool.name for tool in request_for(CONFIG, new_turn()).tools] == ["ask", "price", "stock"]


@pytest.mark.parametrize("choice", ["required", "price", "ask"])
def test_a_tool_is_forced_in_the_first_inference_only(choice: str) -> None:
    engine = Engine(PRICE, call("price", "c9"), "done", config=choosing(choice))
    engine.run(new_turn())
    assert [choice, "auto", "auto"] == [request.tool_choice for request in engine.inference.requests]


def test_a_tool_is_not_forced_again_after_a_resume() -> None:
    waiting = Engine(CLIENT_CALL, config=choosing("required")).run(new_turn())
    assert request_for(choosing("required"), answered_by_client(waiting.state, CLIENT_CALL)).tool_choice == "auto"


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_choice_that_forces_nothing_stays_for_the_whole_turn(choice: str) -> None:
    engine = Engine(PRICE, "done", config=choosing(choice))
    engine.run(new_turn())
    assert [choice, choice] == [request.tool_choice for request in engine.inference.requests]


def test_fixed_tokens_are_those_of_the_question_without_its_history() -> None:
    state = with_context("the shop is open")
    assert tokens_of(request_for(CONFIG, state).messages) == fixed_tokens(state, CONFIG, ())


def test_fixed_tokens_grow_with_the_tools() -> None:
    tool = ToolDef(name="price", description="x" * 4_000)
    assert fixed_tokens(new_turn(), CONFIG, (tool,)) >= fixed_tokens(new_turn(), CONFIG, ()) + 1_000
