"""Summaries of the oldest turns by the model, at the end of a turn after which they exceed its context window."""

import logging
from collections.abc import Sequence
from itertools import accumulate

from turnstone.domain.errors import InvalidRequest, ModelError, TurnLimitReached
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.context import (
    Entry,
    Segment,
    current_messages,
    entry_of,
    first_kept,
    living,
    summary_tokens,
    tokens_of,
)
from turnstone.domain.turns.turns import Summary, TurnState
from turnstone.engine.measuring import refuse_over_limit
from turnstone.engine.prompt import fixed_tokens, system_message
from turnstone.engine.steps import EngineDeps
from turnstone.engine.summary import summarized
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)


class Summarizer:
    """Summarizes the oldest turns of a session when the next turn would not fit into the context window with them."""

    def __init__(self, turns: TurnStore) -> None:
        self._turns = turns

    def summary(
        self, ref: TurnRef, segments: Sequence[Segment], ended: TurnState, deps: EngineDeps, budget_tokens: int
    ) -> Summary | None:
        """Return a summary of the turns to be dropped; None if there is room, or if the model gave no summary.

        Raises:
            StoreUnavailable: a long turn can't be read.
        """
        room = (
            budget_tokens
            - fixed_tokens(ended, deps.config, deps.offer.definitions)
            - _added_by_prompt(ended, deps)
            + tokens_of(current_messages(ended))
        )
        earlier, entries = living(segments)
        newest = entry_of(ended)
        dropped = to_be_dropped(earlier, entries, newest, room)
        if not dropped:
            return None
        try:
            refuse_over_limit(ended, deps.max_turn_tokens)
            messages = self._turns.messages_of(ref, dropped)
            transcript = tuple(message for turn in messages for message in turn)
            text, usage = summarized(earlier.text if earlier else None, transcript, deps)
        except (ModelError, InvalidRequest, TurnLimitReached) as problem:
            log.warning("session %s continues without a summary of the turns it drops: %s", ref.session_id, problem)
            return None
        if not text:
            log.warning(
                "session %s continues without a summary of the turns it drops: the model gave none", ref.session_id
            )
            return None
        first_order = earlier.first_order if earlier else dropped[0].order
        return Summary(
            text=text, first_order=first_order, last_order=dropped[-1].order, usage=usage, model=deps.config.model
        )


def _added_by_prompt(ended: TurnState, deps: EngineDeps) -> int:
    """Return the tokens by which the system messages of the last inference exceed the instructions."""
    if deps.prompt is None:
        return 0
    return tokens_of(deps.prompt.newest(ended)) - tokens_of(system_message(deps.config))


def to_be_dropped(earlier: Summary | None, entries: Sequence[Entry], newest: Entry, room: int) -> tuple[Entry, ...]:
    """Return the oldest turns, to be replaced by a summary; none while the next turn will fit.

    The next turn is assumed to be as long as the newest. The turns that stay take half of the room, so that not every
    turn ends with a summary; the newest stays at any length.
    """
    taken = summary_tokens(earlier) + sum(entry.tokens for entry in entries) + newest.tokens
    if taken + newest.tokens <= room:
        return ()
    sums = accumulate((entry.tokens for entry in reversed(entries)), initial=newest.tokens)
    kept = sum(1 for total in list(sums)[1:] if total <= room // 2)
    return tuple(entries[: first_kept((*entries, newest), len(entries) - kept)])
