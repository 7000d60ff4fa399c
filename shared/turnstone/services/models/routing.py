"""Routes from the model that an agent names to its providers."""

from turnstone.domain.errors import InvalidRequest, UnknownModel
from turnstone.domain.models.local_embeddings import HASHED_WORDS
from turnstone.domain.models.routing import ConfiguredModels, ModelRoute, Target
from turnstone.store.registry.snapshot import RegistrySnapshot


class Routing:
    """The operator's models, then those registered by the tenant, then, of an open registry, any name at all."""

    def __init__(self, configured: ConfiguredModels, directory: RegistrySnapshot) -> None:
        self._configured = configured
        self._directory = directory

    def route(self, tenant: str, model_id: str) -> ModelRoute:
        """Return the route.

        Raises:
            UnknownModel: the registry is closed and has no such model.
            InvalidRequest: its provider is gone.
        """
        if listed := self._configured.routes.get(model_id):
            return listed
        registered = self._directory.find(tenant, "model", model_id)
        if registered is None and self._configured.default is None:  # another process may have just registered it
            self._directory.refresh(tenant)
            registered = self._directory.find(tenant, "model", model_id)
        if registered is not None:
            from turnstone.domain.registry.catalogue import (
                registered_route,  # takes long to load, and few register models
            )

            return self._provided(registered_route(registered))
        if self._configured.default is None:
            raise UnknownModel(model_id)
        return ModelRoute(model_id, (Target(self._configured.default, model_id),))

    def route_now(self, tenant: str, model_id: str) -> ModelRoute:
        """Return the current route, without the cached registry. Raises as `route` does."""
        if model_id not in self._configured.routes:
            self._directory.refresh(tenant)
        return self.route(tenant, model_id)

    def embedding_route(self, tenant: str) -> ModelRoute | None:
        """Return the route of the embedding model where a client names none, None without one.

        A server without models of its own takes the first configured one whose vectors have a fixed length, else the
        first that the tenant has registered.
        """
        if self._configured.embedding is not None:
            return self.route(tenant, self._configured.embedding)
        of_operator = (each for each in self._configured.routes.values() if each.embedding_dimension is not None)
        found = next(of_operator, None)
        if found is not None:
            return found
        routes = (self.route(tenant, name) for name in self._registered_for_embedding(tenant))
        return next((route for route in routes if route.embedding_dimension is not None), None)

    def route_of_bank(self, tenant: str, model_id: str) -> ModelRoute:
        """Return the current route of the embedding model of a new bank.

        Raises:
            InvalidRequest: there is no such model, or its files are missing; the message lists those that are here.
        """
        configured = self._configured
        try:
            route = self.route_now(tenant, model_id)
        except UnknownModel:
            raise self._no_embedding_model(tenant, model_id) from None
        is_listed = model_id in configured.routes or self._directory.find(tenant, "model", model_id) is not None
        is_missing = model_id in configured.unlisted and model_id != HASHED_WORDS  # which needs no files
        is_unknown = configured.is_offline and not is_listed and model_id not in configured.embedding_models()
        if is_missing or is_unknown:
            raise self._no_embedding_model(tenant, model_id)
        return route

    def _no_embedding_model(self, tenant: str, model_id: str) -> InvalidRequest:
        names = [*self._configured.embedding_models(), *self._registered_for_embedding(tenant)]
        choice = f"choose one of {', '.join(names)}" if names else "it has none; register one"
        problem = f"this server has no embedding model {model_id!r}; {choice}"
        return InvalidRequest(f"embedding_model: {problem}", ("embedding_model",))

    def kinds(self, route: ModelRoute) -> frozenset[str]:
        """Return the kinds of the route's providers."""
        return frozenset(self._configured.providers[target.provider_id] for target in route.targets)

    @property
    def is_closed(self) -> bool:
        """Whether agents may name only models and banks that are there."""
        return self._configured.default is None

    def refuse_unknown(self, tenant: str, model_id: str) -> None:
        """Raise InvalidRequest as `route` does; where the registry is open, a name may get its model later."""
        if self.is_closed:
            self.route(tenant, model_id)

    def _registered_for_embedding(self, tenant: str) -> list[str]:
        registered = self._directory.of_kind(tenant, "model")
        return sorted(name for name, entry in registered.items() if entry.get("model_type") == "embedding")

    def _provided(self, route: ModelRoute) -> ModelRoute:
        """Return the route without providers that are no longer configured. Raises InvalidRequest if none is left."""
        targets = tuple(target for target in route.targets if target.provider_id in self._configured.providers)
        if not targets:
            gone = route.targets[0].provider_id
            raise InvalidRequest(
                f"model: {route.model_id!r} is registered with provider {gone!r}, which this server no longer has",
                ("model",),
            )
        return route._replace(targets=targets)
