"""Route inference to the first of several providers that begins an answer."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import chain
from threading import Lock

from turnstone.adapters.models.provider_health import note_answer, note_failure, warn_of_fallback
from turnstone.adapters.outgoing.breaker import CircuitBreaker
from turnstone.domain.errors import InvalidRequest, ModelError, ModelFailed, StoreUnavailable
from turnstone.domain.models.requests import InferenceRequest, Inferred, Piece, Streamed
from turnstone.domain.models.routing import Target
from turnstone.ports.models import Capability, Inference

Answer = Generator[Streamed, None, None]


class RoutedInference:
    """Calls providers, created on first use."""

    def __init__(
        self,
        providers: Mapping[str, Callable[[], Inference]],
        default: str | None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Take a factory per provider, and the default provider, None for none."""
        self._made = {provider_id: _Once(make) for provider_id, make in providers.items()}
        self._default = default
        self._breaker = breaker or CircuitBreaker()

    def load(self) -> "RoutedInference":
        """Create all providers now, to detect invalid settings at the start."""
        for made in self._made.values():
            made.get()
        return self

    def stream(self, request: InferenceRequest) -> Iterator[Streamed]:
        """Yield the answer of the first target that begins one; later failures of that target are final.

        Skips a target whose circuit breaker is open, as long as another is left.

        Raises:
            ModelError, InvalidRequest: from the last target tried.
        """
        targets = request.targets or (Target(self._default or "", request.model),)
        for target in self._in_turn(targets):
            with closing(self._requested(target, request)) as answer:
                try:
                    first = next(item for item in answer if request.reads_details or not isinstance(item, Piece))
                except (ModelError, InvalidRequest) as error:
                    self._note(target, error, request)
                    if target is targets[-1] or _is_cancelled(request):
                        raise
                    warn_of_fallback(target, error, request.about)
                    continue
                yield from self._observed(target, chain((first,), answer), request)
            return

    def provider(self, provider_id: str) -> Inference:
        """Return the provider itself. Raises KeyError, and errors of its creation."""
        return self._made[provider_id].get()

    def models(self) -> tuple[str, ...]:
        """Return the ids that the default provider lists, none without a default provider. Raises ModelError."""
        return () if self._default is None else self._provider(Target(self._default, "")).models()

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        """Return the capabilities common to all targets, since each may answer. Raises ModelFailed."""
        tried = targets or (Target(self._default or "", ""),)
        first, *others = (self._provider(target).capabilities() for target in tried)
        return first.intersection(*others)

    def _in_turn(self, targets: Sequence[Target]) -> Iterator[Target]:
        """Yield the targets to try; each is checked only in its turn, because a half-open breaker permits one trial."""
        yield from (target for target in targets[:-1] if self._breaker.allows_request(target))
        yield targets[-1]

    def _requested(self, target: Target, request: InferenceRequest) -> Answer:
        yield from self._provider(target).stream(request._replace(model=target.model, targets=()))

    def _observed(self, target: Target, answer: Iterator[Streamed], request: InferenceRequest) -> Answer:
        try:
            for item in answer:
                if isinstance(item, Inferred):
                    note_answer(self._breaker, target)
                    yield item._replace(answered_by=target) if len(request.targets) > 1 else item
                else:
                    yield item
        except ModelError as error:
            self._note(target, error, request)
            raise

    def _note(self, target: Target, error: ModelError | InvalidRequest, request: InferenceRequest) -> None:
        if isinstance(error, ModelError):
            is_active = not _is_cancelled(request)
            note_failure(self._breaker, target, error, is_active=is_active, about=request.about)

    def _provider(self, target: Target) -> Inference:
        made = self._made.get(target.provider_id)
        if made is None:
            raise ModelFailed(f"this server has no provider {target.provider_id!r} for the model {target.model!r}")
        try:
            return made.get()
        except (StoreUnavailable, ValueError) as exc:
            raise ModelFailed(f"provider {target.provider_id!r} can't be reached: {exc}", is_outage=True) from exc


class _Once:
    """A provider, created on first use by exactly one thread."""

    def __init__(self, make: Callable[[], Inference]) -> None:
        self._make = make
        self._lock = Lock()

    def get(self) -> Inference:
        with self._lock:
            return self._provider

    @cached_property
    def _provider(self) -> Inference:
        return self._make()


def _is_cancelled(request: InferenceRequest) -> bool:
    return request.stop is not None and request.stop.is_set
