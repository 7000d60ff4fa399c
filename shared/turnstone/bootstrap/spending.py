"""Building of the limits and the summaries of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.services.usage.limits import DayLimit, Limits
from turnstone.store.usage.usage import UsageStore

if TYPE_CHECKING:
    from turnstone.bootstrap.adapters import AnyPorts
    from turnstone.services.turns.summarizing import Summarizer
    from turnstone.settings.config import Settings
    from turnstone.store.sessions.turns import TurnStore


def build_limits(ports: AnyPorts, settings: Settings) -> Limits:
    """Return the limits of a turn, and of a tenant in a day."""
    of_day = DayLimit(UsageStore(ports.store), ports.clock, settings.max_day_tokens)
    return Limits(settings.max_turn_tokens, of_day, settings.max_infer_iters, settings.max_turn_seconds)


def build_summarizer(turns: TurnStore, settings: Settings) -> Summarizer | None:
    """Return the writer of summaries, None if they are off."""
    if not settings.summaries:
        return None
    from turnstone.services.turns.summarizing import Summarizer

    return Summarizer(turns)
