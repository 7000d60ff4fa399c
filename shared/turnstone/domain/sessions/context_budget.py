"""How much of a model's window there is for what it is sent."""

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.models.routing import ModelRoute

ROOM_FOR_ANSWERS = 4  # one of so many parts of a window, where the agent says nothing of it


def budget_tokens(route: ModelRoute, config: AgentConfig, otherwise: int, token_factor: float) -> int:
    """Return how many tokens, as we estimate them, may be sent.

    Of a model's window there is room left for its answer, half of it at most. `otherwise`, where nothing is known of
    the window, is what may be sent as it is. The factor: how many tokens the model counts for each that we estimate.
    """
    window = route.context_tokens
    if window is None:
        return int(otherwise / token_factor)
    max_tokens = config.sampling_params.max_tokens
    room = min(max_tokens, window // 2) if max_tokens > 0 else window // ROOM_FOR_ANSWERS
    return int((window - room) / token_factor)
