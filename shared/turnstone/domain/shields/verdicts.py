"""What shields are asked, and what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.models.routing import Target
    from turnstone.domain.turns.turns import SafetyViolation, Touchpoint
    from turnstone.domain.usage.usage import TokenUsage
    from turnstone.domain.values.cancellation import StopSignal


class ShieldQuestion(NamedTuple):
    """What shields are to judge.

    Attributes:
        judged: the messages that may go on only if no shield stops them.
        call_id: the call that is judged, or whose answer is.
        before: what was said before them, for shields that understand a conversation.
        targets: who is asked where a model judges, in this order; none: whoever is asked for the shield's model.
        provider_data: the caller's own keys, for this question only.
        stop: tells that nobody wants the verdict any more.
    """

    judged: tuple[Message, ...]
    touchpoint: Touchpoint
    call_id: str | None = None
    before: tuple[Message, ...] = ()
    targets: tuple[Target, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA
    stop: StopSignal | None = None


class Verdict(NamedTuple):
    """What a shield found, None if nothing; the tokens it took, and of which model, where one judged."""

    violation: SafetyViolation | None = None
    usage: TokenUsage | None = None
    model: str = ""
