"""Build the model's request: the system message, earlier turns, this turn so far, and the offered tools."""

from collections.abc import Sequence

from turnstone.domain.agents.agents import AgentConfig, SamplingParams
from turnstone.domain.messages.messages import Message, SystemMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.sessions.call_pairs import paired
from turnstone.domain.sessions.context import current_messages, newest_of_turns, tokens_of
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.loop_arguments import with_loop_arguments
from turnstone.domain.turns.turns import TurnState
from turnstone.engine.loop_rules import allowed_definitions, output_tokens_left
from turnstone.engine.measuring import tokens_of_tools
from turnstone.engine.steps import EngineDeps


def build_request(state: TurnState, deps: EngineDeps) -> InferenceRequest:
    """Return the next request to the model. Raises as the prompt source does, and InvalidRequest without a tool."""
    system = system_message(deps.config) if deps.prompt is None else deps.prompt.system(state)
    history = deps.history.messages
    if deps.prompt is not None and deps.history_tokens is not None:
        room = deps.history_tokens - tokens_of(system)
        (history,) = newest_of_turns((history,), room, is_continued=state.continues)
    tools = allowed_definitions(state, deps.offer)
    return request_of(deps)._replace(
        messages=(*system, *paired((*history, *current_messages(state)))),
        tools=with_loop_arguments(tools, state.policy),
        tool_choice=_tool_choice(state, deps, tools),
        sampling=_sampling(state, deps.config.sampling_params),
        response_format=deps.config.response_format,
        tool_prompt_format=deps.config.tool_config.tool_prompt_format,
        system_message_behavior=deps.config.tool_config.system_message_behavior,
        extras=state.extras,
        tool_extras=state.tool_extras,
        reads_details=state.keeps_details,
        takes_batches=not state.keeps_details,
    )


def request_of(deps: EngineDeps) -> InferenceRequest:
    """Return a request to the turn's model, without messages, tools and settings of the agent."""
    return InferenceRequest(
        model=deps.config.model,
        messages=(),
        targets=deps.targets,
        provider_data=deps.provider_data,
        stop=deps.stop,
        about=deps.about,
    )


def _sampling(state: TurnState, params: SamplingParams) -> SamplingParams:
    """Return the parameters with the tokens that the turn has left for its answers."""
    left = output_tokens_left(state)
    if left is None:
        return params
    return params.model_copy(update={"max_tokens": min(params.max_tokens or left, left)})


def _tool_choice(state: TurnState, deps: EngineDeps, tools: Sequence[ToolDef]) -> str:
    """Return the choice for the next inference.

    A required or named tool is forced in the turn's first inference only: forced again after its answer, the model
    could never finish. A policy that ends turns after calls may require one each time.
    """
    choice = deps.config.tool_config.tool_choice
    if choice == "none":
        return choice
    named = deps.offer.name_offered(choice) or choice
    is_possible = not state.policy.tool_rules or named == "required" or any(tool.name == named for tool in tools)
    if named != "auto" and not state.inference_count and is_possible:
        return named
    return "required" if state.policy.must_call and tools else "auto"


def system_message(config: AgentConfig) -> tuple[Message, ...]:
    """Return the agent's instructions as a message, nothing without any."""
    return (SystemMessage(content=config.instructions),) if config.instructions else ()


def fixed_tokens(state: TurnState, config: AgentConfig, definitions: Sequence[ToolDef]) -> int:
    """Return the tokens independent of the history: instructions, tools and the turn itself."""
    return tokens_of(system_message(config)) + tokens_of(current_messages(state)) + tokens_of_tools(definitions)
