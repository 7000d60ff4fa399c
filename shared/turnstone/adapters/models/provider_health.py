"""Providers that fail, rest and answer again: what the circuit breaker is told of them, and the log says."""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from turnstone.adapters.models.breaker import FAILURES, REST_S, CircuitBreaker
from turnstone.domain.errors import InvalidRequest, ModelError
from turnstone.domain.models.routing import Target

log = logging.getLogger(__name__)
Ids = Mapping[str, str]
NO_IDS: Ids = MappingProxyType({})
RESTS = f"a provider failed {FAILURES} times in a row and rests for {REST_S:g} s, as long as there is another"


def note_answer(breaker: CircuitBreaker, target: Target) -> None:
    """Count an answer of the target."""
    if breaker.answered(target):
        log.info("a provider that rested answers again", extra={"fields": _named(target)})


def note_failure(
    breaker: CircuitBreaker, target: Target, error: ModelError, *, is_wanted: bool = True, about: Ids = NO_IDS
) -> None:
    """Count a failure of the target if it is an outage, and note in the error who provides the model.

    Args:
        breaker: what counts them.
        target: who was asked.
        error: what came of it.
        is_wanted: False for an answer that we broke off ourselves, which looks like one that the provider broke off.
        about: ids of the turn, where there is one.
    """
    error.provider_id = target.provider_id
    if error.is_outage and is_wanted and breaker.failed(target):
        log.warning(RESTS, extra={"fields": {**about, **_told(target, error)}})


def warn_of_fallback(target: Target, error: ModelError | InvalidRequest, about: Ids = NO_IDS) -> None:
    """Write that the next target is asked in place of this one, and why, with the ids of the turn if there is one."""
    log.warning("a provider did not answer, the next one is asked", extra={"fields": {**about, **_told(target, error)}})


def _named(target: Target) -> dict[str, str]:
    return {"provider": target.provider_id, "model": target.model}


def _told(target: Target, error: ModelError | InvalidRequest) -> dict[str, object]:
    more = error.told if isinstance(error, ModelError) else {}
    return {**_named(target), "error": type(error).__name__, **more}
