"""The models that agents can name: configured, registered, or listed by the default provider."""

from collections.abc import Collection

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound, Unsupported
from turnstone.domain.models.routing import DEFAULT_PROVIDER, ConfiguredModels
from turnstone.domain.registry.catalogue import details_of, listed_model
from turnstone.domain.registry.providers import Provider
from turnstone.domain.registry.registry import Model
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.models import Inference
from turnstone.ports.system import Clock
from turnstone.store.registry.registry import RegistryStore

WHOLE_MODEL = ("provider_resource_id", "provider_id", "model_type", "metadata")


class Models:
    """The models of the operator's catalogue, those registered here, and those that the default provider lists."""

    def __init__(
        self, store: RegistryStore[Model], configured: ConfiguredModels, inference: Inference, clock: Clock
    ) -> None:
        self._store = store
        self._configured = configured
        self._inference = inference
        self._clock = clock

    def list(self, caller: Caller) -> tuple[Model, ...]:
        """Return all models: the operator's, then others, a registered one instead of its provider's.

        Raises ModelError.
        """
        provided = {name: self._provided(name) for name in self._inference.models()}
        registered = {model.identifier: model for model in self._store.list(caller.tenant)}
        configured = self._configured
        listed = {
            name: listed_model(route) for name, route in configured.routes.items() if name not in configured.unlisted
        }
        return tuple({**provided, **dict(sorted(registered.items())), **listed}.values())

    def get(self, caller: Caller, model_id: str) -> Model:
        """Return the model. Raises NotFound, ModelError."""
        listed = self._configured.routes.get(model_id)
        if listed and model_id not in self._configured.unlisted:
            return listed_model(listed)
        if registered := self._store.find(caller.tenant, model_id):
            return registered
        if model_id not in self._inference.models():
            raise NotFound("model", model_id)
        return self._provided(model_id)

    def register(self, caller: Caller, model: Model, attempt: Attempt, given: Collection[str] = WHOLE_MODEL) -> Model:
        """Return the registered model, or the operator's if it agrees with the given fields.

        A model without a provider gets the default one, like a name that is not registered.
        Raises InvalidRequest, AlreadyRegistered, IdempotencyMismatch.
        """
        if (route := self._configured.routes.get(model.identifier)) and model.agrees_with(listed_model(route), given):
            return listed_model(route)
        if (
            model.provider_id == DEFAULT_PROVIDER
            and DEFAULT_PROVIDER not in self._configured.providers
            and self._configured.default is not None
        ):
            model = model.model_copy(update={"provider_id": self._configured.default})
        if model.identifier in self._configured.routes:
            message = (
                f"model_id: {model.identifier!r} comes with the server and can't be redefined; choose another name"
            )
            raise InvalidRequest(message, ("model_id",))
        self._refuse_unknown_provider(model.provider_id, ("provider_id",))
        for index, fallback in enumerate(details_of(model).fallbacks):
            self._refuse_unknown_provider(fallback.provider, ("metadata", "fallbacks", index, "provider"))
        self._store.register(caller.tenant, model, attempt, self._clock.now())
        return model

    def unregister(self, caller: Caller, model_id: str) -> None:
        """Remove a registered model; the operator's and the providers' own stay. Raises NotFound."""
        self._store.remove(caller.tenant, model_id)

    def _provided(self, name: str) -> Model:
        return Model(
            identifier=name, provider_resource_id=name, provider_id=self._configured.default or DEFAULT_PROVIDER
        )

    def _refuse_unknown_provider(self, provider_id: str, location: tuple[str | int, ...]) -> None:
        if provider_id not in self._configured.providers:
            there = ", ".join(self._configured.providers)
            field = ".".join(map(str, location))
            raise Unsupported(f"{field}: this server has no provider {provider_id!r}; it has: {there}", location)


class Providers:
    """The providers of this server."""

    def __init__(self, providers: tuple[Provider, ...]) -> None:
        self._providers = providers

    def list(self) -> tuple[Provider, ...]:
        return self._providers

    def get(self, provider_id: str) -> Provider:
        """Return the provider. Raises NotFound."""
        found = [provider for provider in self._providers if provider.provider_id == provider_id]
        if not found:
            raise NotFound("provider", provider_id)
        return found[0]
