"""Usage of an inference: tokens as its provider counted them, else our estimates."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from turnstone.domain.errors import TurnLimitReached
from turnstone.domain.messages.messages import Message
from turnstone.domain.models.requests import InferenceRequest, Inferred
from turnstone.domain.sessions.context import tokens_of
from turnstone.domain.sessions.context_budget import NO_HISTORY, History
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.by_identity import ByIdentity

CHARACTERS_PER_TOKEN = 4
MOST_TOOLS = 256  # whose size is remembered: that of a base tool is the same in every inference


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
    """Return an estimate of the request's tokens; those of a history that it contains are counted already."""
    tools = tokens_of_tools(request.tools)
    messages = request.messages
    start = _start_of(history, messages)
    if start is None:
        return tokens_of(messages) + tools
    return tokens_of((*messages[:start], *messages[start + len(history.messages) :])) + history.tokens + tools


def tokens_of_tools(definitions: Iterable[ToolDef]) -> int:
    """Return an estimate of the tokens of the definitions of tools."""
    return sum(_characters(ByIdentity(definition)) for definition in definitions) // CHARACTERS_PER_TOKEN


@lru_cache(MOST_TOOLS)
def _characters(same: ByIdentity[ToolDef]) -> int:
    return len(str(same.value))


def _start_of(history: History, messages: Sequence[Message]) -> int | None:
    """Return the index of the history in a request's messages, None if these hold another form of it."""
    if not history.messages:
        return None
    first, last = history.messages[0], history.messages[-1]
    start = next((index for index, message in enumerate(messages) if message is first), None)
    end = -1 if start is None else start + len(history.messages) - 1
    return start if 0 <= end < len(messages) and messages[end] is last else None


def refuse_over_limit(state: TurnState, limit_tokens: int | None) -> None:
    """Raise TurnLimitReached if the turn has used its limit before another inference."""
    spent_tokens = sum(tokens.total_tokens for tokens in state.spent.values())
    if limit_tokens is not None and spent_tokens >= limit_tokens:
        raise TurnLimitReached(spent_tokens, limit_tokens)
