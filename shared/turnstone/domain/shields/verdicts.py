"""Requests to shields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:
    from turnstone.domain.memory.memory_query import MemoryQuery
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.models.routing import Target
    from turnstone.domain.turns.turns import Touchpoint
    from turnstone.domain.values.cancellation import StopSignal


class ShieldQuestion(NamedTuple):
    """A request to shields.

    Attributes:
        judged: the messages that continue only if no shield stops them.
        call_id: the call that is judged, or whose answer is; None for the turn's memory.
        query: the query to memory that is judged, kept with the first finding.
        before: the messages before them, for shields that understand a conversation.
        targets: the targets to try in this order, where a model judges; none: the route of the shield's model.
        provider_data: the caller's own keys, for this request only.
        stop: cancels the request.
    """

    judged: tuple[Message, ...]
    touchpoint: Touchpoint
    call_id: str | None = None
    before: tuple[Message, ...] = ()
    targets: tuple[Target, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA
    stop: StopSignal | None = None
    query: MemoryQuery | None = None
