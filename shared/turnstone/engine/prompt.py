"""Build the model's request: the system message, earlier turns, this turn so far, and the offered tools."""

from collections.abc import Sequence

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.messages.messages import Message, SystemMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.sessions.context import current_messages, tokens_of
from turnstone.domain.turns.turns import TurnState
from turnstone.engine.steps import EngineDeps


def build_request(state: TurnState, deps: EngineDeps) -> InferenceRequest:
    """Return the next request to the model.

    A required or named tool is forced in the turn's first inference only: forced again after its answer, the model
    could never finish.
    """
    choice = deps.config.tool_config.tool_choice
    is_forced = choice not in ("auto", "none")
    return InferenceRequest(
        model=deps.config.model,
        messages=(*system_message(deps.config), *deps.history.messages, *current_messages(state.turn)),
        tools=deps.offer.definitions,
        tool_choice="auto" if is_forced and state.inference_count else deps.offer.name_offered(choice) or choice,
        sampling=deps.config.sampling_params,
        response_format=deps.config.response_format,
        tool_prompt_format=deps.config.tool_config.tool_prompt_format,
        system_message_behavior=deps.config.tool_config.system_message_behavior,
        targets=deps.targets,
        provider_data=deps.provider_data,
        stop=deps.stop,
        about=deps.about,
        reads_details=state.keeps_details,
    )


def system_message(config: AgentConfig) -> tuple[Message, ...]:
    """Return the agent's instructions as a message, nothing without any."""
    return (SystemMessage(content=config.instructions),) if config.instructions else ()


def fixed_tokens(state: TurnState, config: AgentConfig, definitions: Sequence[object]) -> int:
    """Return the tokens independent of the history: instructions, tools and the turn itself."""
    return (
        tokens_of(system_message(config))
        + tokens_of(current_messages(state.turn))
        + sum(len(str(definition)) for definition in definitions) // 4
    )
