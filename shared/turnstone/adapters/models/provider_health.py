"""Report outages and recoveries of providers to the circuit breaker and the log."""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from turnstone.adapters.outgoing.breaker import FAILURES, REST_S, CircuitBreaker
from turnstone.domain.errors import InvalidRequest, ModelError
from turnstone.domain.models.routing import Target

log = logging.getLogger(__name__)
Ids = Mapping[str, str]
NO_IDS: Ids = MappingProxyType({})
RESTS = f"a provider failed {FAILURES} times in a row and rests for {REST_S:g} s, as long as there is another"


def note_answer(breaker: CircuitBreaker, target: Target) -> None:
    """Count the target's success."""
    if breaker.answered(target):
        log.info("provider answers again, circuit breaker closed", extra={"fields": _named(target)})


def note_failure(
    breaker: CircuitBreaker, target: Target, error: ModelError, *, is_active: bool = True, about: Ids = NO_IDS
) -> None:
    """Count the target's failure if it is an outage, and note the provider in the error.

    Args:
        breaker: the circuit breaker.
        target: the provider and model of the request.
        error: the failure.
        is_active: False for an answer that the caller cancelled, which looks like one aborted by the provider.
        about: ids of the turn, if any.
    """
    error.provider_id = target.provider_id
    if error.is_outage and is_active and breaker.failed(target):
        log.warning(RESTS, extra={"fields": {**about, **_fields(target, error)}})


def warn_of_fallback(target: Target, error: ModelError | InvalidRequest, about: Ids = NO_IDS) -> None:
    """Log the fallback to the next target and its reason, with the ids of the turn, if any."""
    log.warning(
        "provider failed, falling back to the next target", extra={"fields": {**about, **_fields(target, error)}}
    )


def _named(target: Target) -> dict[str, str]:
    return {"provider": target.provider_id, "model": target.model}


def _fields(target: Target, error: ModelError | InvalidRequest) -> dict[str, object]:
    more = error.log_fields if isinstance(error, ModelError) else {}
    return {**_named(target), "error": type(error).__name__, **more}
