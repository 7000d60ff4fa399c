"""Token budget of a prompt within the model's context window, and the history that fits it."""

from typing import NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.messages.messages import Message
from turnstone.domain.models.routing import ModelRoute

ROOM_FOR_ANSWERS = 4  # default share of the window for the answer, as a divisor


class History(NamedTuple):
    """Messages of ended turns, oldest first, and their estimated tokens."""

    messages: tuple[Message, ...]
    tokens: int


NO_HISTORY = History((), 0)


def budget_tokens(route: ModelRoute, config: AgentConfig, default_tokens: int, token_factor: float) -> int:
    """Return the maximum of estimated tokens to send.

    Reserves room for the answer in the context window, half of it at most.

    Args:
        default_tokens: tokens to send if the size of its window is not configured.
        token_factor: the model's tokens per estimated token.
    """
    window = route.context_tokens
    if window is None:
        return int(default_tokens / token_factor)
    max_tokens = config.sampling_params.max_tokens
    room = min(max_tokens, window // 2) if max_tokens > 0 else window // ROOM_FOR_ANSWERS
    return int((window - room) / token_factor)
