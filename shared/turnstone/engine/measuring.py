"""Usage of an inference: tokens as its provider counted them, else our estimates."""

from turnstone.domain.errors import TurnLimitReached
from turnstone.domain.models.requests import InferenceRequest, Inferred
from turnstone.domain.sessions.context import NO_HISTORY, History, tokens_of
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.usage.usage import TokenUsage

CHARACTERS_PER_TOKEN = 4


def measured(request: InferenceRequest, answer: Inferred, history: History = NO_HISTORY) -> TokenUsage:
    """Return the tokens of the answered request, with our estimate of the prompt next to the provider's count.

    `history` is the part of the request whose tokens are counted already.
    """
    estimated = prompt_tokens_of(request, history)
    reported = answer.usage
    if reported is None or reported.prompt_tokens + reported.completion_tokens == 0:
        estimate = tokens_of((answer.message,))
        return TokenUsage(
            prompt_tokens=estimated, completion_tokens=estimate, total_tokens=estimated + estimate, is_estimated=True
        )
    return reported.model_copy(update={"estimated_prompt_tokens": estimated})


def prompt_tokens_of(request: InferenceRequest, history: History = NO_HISTORY) -> int:
    """Return an estimate of the request's tokens; those of the history, which the request contains, are known."""
    tools = sum(len(str(definition)) for definition in request.tools) // CHARACTERS_PER_TOKEN
    uncounted = request.messages
    if history.messages:
        start = next(index for index, message in enumerate(uncounted) if message is history.messages[0])
        uncounted = (*uncounted[:start], *uncounted[start + len(history.messages) :])
    return tokens_of(uncounted) + history.tokens + tools


def refuse_over_limit(state: TurnState, limit_tokens: int | None) -> None:
    """Raise TurnLimitReached if the turn has used its limit before another inference."""
    spent_tokens = sum(tokens.total_tokens for tokens in state.spent.values())
    if limit_tokens is not None and spent_tokens >= limit_tokens:
        raise TurnLimitReached(spent_tokens, limit_tokens)
