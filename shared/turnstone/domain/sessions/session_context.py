"""View of a session's context for clients."""

from turnstone.domain.values.frozen import Frozen


class SummaryInContext(Frozen):
    """A model's summary of earlier turns, sent instead of them."""

    text: str
    first_turn_id: str
    last_turn_id: str
    model_id: str


class TurnInContext(Frozen):
    """A turn of the context, with its estimated tokens.

    A newest turn that does not fit as a whole is sent without its first messages.
    """

    turn_id: str
    tokens: int


class SessionContext(Frozen):
    """The part of a session that is sent to the model.

    Attributes:
        window_tokens: the size of the model's context window, null if not configured.
        budget_tokens: the maximum of estimated tokens sent; instructions, tools and the new turn have priority.
        token_factor: the model's tokens per estimated token, from its last report.
        turns: the newest ones that fit, oldest first, before subtracting the content with priority.
    """

    window_tokens: int | None
    budget_tokens: int
    token_factor: float
    summary: SummaryInContext | None
    turns: tuple[TurnInContext, ...]
