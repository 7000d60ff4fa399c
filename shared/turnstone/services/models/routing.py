"""Routes from the model that an agent names to its providers."""

from turnstone.domain.errors import InvalidRequest, UnknownModel
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

    def kinds(self, route: ModelRoute) -> frozenset[str]:
        """Return the kinds of the route's providers."""
        return frozenset(self._configured.providers[target.provider_id] for target in route.targets)

    def default_embedding(self) -> str:
        """Return the embedding model for a client that names none. Raises InvalidRequest if there is none."""
        if self._configured.embedding is None:
            raise InvalidRequest(
                "embedding_model: this server has no default; name a model that makes embeddings", ("embedding_model",)
            )
        return self._configured.embedding

    def refuse_unknown(self, tenant: str, model_id: str) -> None:
        """Raise InvalidRequest as `route` does; where the registry is open, a name may get its model later."""
        if self._configured.default is None:
            self.route(tenant, model_id)

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
