"""Route embeddings to the first of several providers that answers."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from turnstone.adapters.models.provider_health import note_answer, note_failure, warn_of_fallback
from turnstone.adapters.outgoing.breaker import CircuitBreaker
from turnstone.domain.errors import ModelError, ModelFailed, StoreUnavailable
from turnstone.domain.models.requests import Embedded, EmbeddingRequest
from turnstone.domain.models.routing import Target
from turnstone.ports.models import Embeddings


class RoutedEmbeddings:
    """Calls providers, created on first use; a factory returns the same provider every time."""

    def __init__(
        self,
        providers: Mapping[str, Callable[[], Embeddings]],
        default: str | None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Take a factory per provider, and the default provider, None for none."""
        self._providers = providers
        self._default = default
        self._breaker = breaker or CircuitBreaker()

    def load(self) -> "RoutedEmbeddings":
        """Create all providers now, to detect invalid settings at the start."""
        for make in self._providers.values():
            make()
        return self

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return the vectors of the first target that answers.

        Skips a target whose circuit breaker is open, as long as another is left.

        Raises:
            Unsupported: the provider makes no embeddings.
            ModelError: from the last target tried.
        """
        *others, last = request.targets or (Target(self._default or "", request.model),)
        for target in filter(self._breaker.allows_request, others):
            try:
                return self._requested(target, request)
            except ModelError as error:
                warn_of_fallback(target, error)
        return self._requested(last, request)

    def _requested(self, target: Target, request: EmbeddingRequest) -> Embedded:
        try:
            embedded = self._provider(target).embed(replace(request, model=target.model, targets=()))
        except ModelError as error:
            note_failure(self._breaker, target, error)
            raise
        note_answer(self._breaker, target)
        return embedded

    def _provider(self, target: Target) -> Embeddings:
        make = self._providers.get(target.provider_id)
        if make is None:
            raise ModelFailed(f"this server has no provider {target.provider_id!r} for the model {target.model!r}")
        try:
            return make()
        except (StoreUnavailable, ValueError) as exc:
            raise ModelFailed(f"provider {target.provider_id!r} can't be reached: {exc}", is_outage=True) from exc
