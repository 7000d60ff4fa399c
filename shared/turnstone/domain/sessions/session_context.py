"""What a model is shown of a session, as it is told to who asks."""

from turnstone.domain.values.frozen import Frozen


class SummaryInContext(Frozen):
    """What a model wrote of earlier turns, which is sent in their place."""

    text: str
    first_turn_id: str
    last_turn_id: str
    model_id: str


class TurnInContext(Frozen):
    """A turn that is sent, and how many tokens that takes as we estimate them.

    A newest turn that does not fit as a whole is sent without its first messages.
    """

    turn_id: str
    tokens: int


class SessionContext(Frozen):
    """What of a session a model is sent.

    Attributes:
        window_tokens: how much the model takes, null where that is not known.
        budget_tokens: how much is sent at most, in estimated tokens; instructions, tools and the new turn come first.
        token_factor: how many tokens the model counts for each that is estimated, as it told last.
        turns: the newest ones that fit, oldest first, if what comes first took nothing.
    """

    window_tokens: int | None
    budget_tokens: int
    token_factor: float
    summary: SummaryInContext | None
    turns: tuple[TurnInContext, ...]
