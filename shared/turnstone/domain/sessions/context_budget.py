"""Token budget of a prompt within the model's context window, and the history that fits it."""

from collections.abc import Sequence
from typing import NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.messages.messages import Message
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.sessions.context import Segment, living, summary_tokens

ROOM_FOR_ANSWERS = 4  # default share of the window for the answer, as a divisor
ROOM_AFTER_ALERTS = 8  # the same where the model gets an alert, which comes before the window is full


class History(NamedTuple):
    """Messages of ended turns, oldest first, and their estimated tokens."""

    messages: tuple[Message, ...]
    tokens: int


NO_HISTORY = History((), 0)


def is_whole_within(segments: Sequence[Segment], budget_tokens: int) -> bool:
    """Return whether the budget holds the history of a session with these newest segments, with nothing left out."""
    summary, entries = living(segments)
    is_from_start = summary is not None or not segments or segments[0].number == 0
    tokens = summary_tokens(summary) + sum(entry.tokens for entry in entries)
    return is_from_start and (tokens <= budget_tokens or not tokens)


def budget_tokens(
    route: ModelRoute, config: AgentConfig, default_tokens: int, token_factor: float, *, has_alerts: bool = False
) -> int:
    """Return the maximum of estimated tokens to send.

    Reserves room for the answer in the context window, half of it at most.

    Args:
        default_tokens: tokens to send if the size of its window is not configured.
        token_factor: the model's tokens per estimated token.
        has_alerts: whether the model gets an alert before the window is full.
    """
    window = route.context_tokens
    if window is None:
        return int(default_tokens / token_factor)
    max_tokens = config.sampling_params.max_tokens
    share = ROOM_AFTER_ALERTS if has_alerts else ROOM_FOR_ANSWERS
    room = min(max_tokens, window // 2) if max_tokens > 0 else window // share
    return int((window - room) / token_factor)
