"""What agents can name: what comes with the server or its model server, and what was registered beside it."""

from collections.abc import Sequence

from turnstone.domain.attempts import Attempt
from turnstone.domain.caller import Caller
from turnstone.domain.catalogue import details_of, listed_model
from turnstone.domain.errors import InvalidRequest, NotFound, Unsupported
from turnstone.domain.registry import BUILTIN, Model, Provider, Toolgroup
from turnstone.domain.routing import MODELS, KnownModels
from turnstone.domain.tools import ToolDef
from turnstone.ports import Clock, Inference, ToolRuntime
from turnstone.store.registry import RegistryStore


class Models:
    """The models of the operator's catalogue, those registered here, and those that the default provider lists."""

    def __init__(self, store: RegistryStore[Model], known: KnownModels, inference: Inference, clock: Clock) -> None:
        self._store = store
        self._known = known
        self._inference = inference
        self._clock = clock

    def list(self, caller: Caller) -> tuple[Model, ...]:
        """Return all models: the operator's, then others, a registered one in the place of its provider's.

        Raises ModelError.
        """
        provided = {name: self._provided(name) for name in self._inference.models()}
        registered = {model.identifier: model for model in self._store.list(caller.tenant)}
        listed = {name: listed_model(route) for name, route in self._known.routes.items()}
        return tuple({**provided, **dict(sorted(registered.items())), **listed}.values())

    def get(self, caller: Caller, model_id: str) -> Model:
        """Return the model. Raises NotFound, ModelError."""
        if listed := self._known.routes.get(model_id):
            return listed_model(listed)
        if registered := self._store.find(caller.tenant, model_id):
            return registered
        if model_id not in self._inference.models():
            raise NotFound("model", model_id)
        return self._provided(model_id)

    def register(self, caller: Caller, model: Model, attempt: Attempt) -> Model:
        """Return the model as registered. Raises InvalidRequest, AlreadyRegistered, IdempotencyMismatch.

        Who names no provider means the default one, as who asks for a name that nobody registered.
        """
        if model.provider_id == MODELS and MODELS not in self._known.providers and self._known.default is not None:
            model = model.model_copy(update={"provider_id": self._known.default})
        if model.identifier in self._known.routes:
            said = f"model_id: {model.identifier!r} comes with the server and can't be defined anew"
            raise InvalidRequest(said, ("model_id",))
        self._refuse_unknown_provider(model.provider_id, ("provider_id",))
        for index, fallback in enumerate(details_of(model).fallbacks):
            self._refuse_unknown_provider(fallback.provider, ("metadata", "fallbacks", index, "provider"))
        self._store.register(caller.tenant, model, attempt, self._clock.now())
        return model

    def unregister(self, caller: Caller, model_id: str) -> None:
        """Remove what was registered; the operator's and the providers' own stay. Raises NotFound."""
        self._store.remove(caller.tenant, model_id)

    def _provided(self, name: str) -> Model:
        return Model(identifier=name, provider_resource_id=name, provider_id=self._known.default or MODELS)

    def _refuse_unknown_provider(self, provider_id: str, location: tuple[str | int, ...]) -> None:
        if provider_id not in self._known.providers:
            there = ", ".join(self._known.providers)
            field = ".".join(map(str, location))
            raise Unsupported(f"{field}: this server has no {provider_id!r}; it has: {there}", location)


class Toolgroups:
    """Toolgroups registered here, and those that come with the server."""

    def __init__(self, store: RegistryStore[Toolgroup], tools: ToolRuntime, clock: Clock) -> None:
        self._store = store
        self._tools = tools
        self._clock = clock

    def list(self, caller: Caller) -> tuple[Toolgroup, ...]:
        registered = sorted(self._store.list(caller.tenant), key=lambda group: group.identifier)
        return (*map(_builtin, self._tools.groups()), *registered)

    def get(self, caller: Caller, toolgroup_id: str) -> Toolgroup:
        """Return the toolgroup. Raises NotFound."""
        if toolgroup_id in self._tools.groups():
            return _builtin(toolgroup_id)
        if registered := self._store.find(caller.tenant, toolgroup_id):
            return registered
        raise NotFound("toolgroup", toolgroup_id)

    def register(self, caller: Caller, group: Toolgroup, attempt: Attempt) -> None:
        """Store the toolgroup. Raises InvalidRequest, Unsupported, AlreadyRegistered, IdempotencyMismatch."""
        if group.identifier in self._tools.groups():
            if group != _builtin(group.identifier):
                said = f"toolgroup_id: {group.identifier!r} comes with the server and can't be defined anew"
                raise InvalidRequest(said, ("toolgroup_id",))
            return  # it is there, whoever says so
        if group.provider_id == BUILTIN:
            known = ", ".join(sorted(self._tools.groups()))
            raise Unsupported(
                f"toolgroup_id: {BUILTIN!r} provides no {group.identifier!r}; it provides: {known}", ("toolgroup_id",)
            )
        self._store.register(caller.tenant, group, attempt, self._clock.now())

    def unregister(self, caller: Caller, toolgroup_id: str) -> None:
        """Remove what was registered. Raises NotFound, InvalidRequest for what comes with the server."""
        if toolgroup_id in self._tools.groups():
            raise InvalidRequest(f"toolgroup {toolgroup_id!r} comes with the server and can't be unregistered")
        self._store.remove(caller.tenant, toolgroup_id)

    def tools(self, groups: Sequence[str] = (), named_by: str = "") -> tuple[tuple[str, ToolDef], ...]:
        """Return the tools that run here, each with its group, of some groups or, for none, of all.

        Raises:
            Unsupported: a group has no tools that run here; it says which field of the request, `named_by`, named it.
        """
        named = groups or self._tools.groups()
        try:
            return tuple((group, tool.definition) for group in named for tool in self._tools.offered([group]))
        except Unsupported as problem:
            raise Unsupported(str(problem), (named_by,)) from None

    def tool(self, name: str) -> tuple[str, ToolDef]:
        """Return the tool of that name with its group. Raises NotFound."""
        found = [(group, tool) for group, tool in self.tools() if tool.name == name]
        if not found:
            raise NotFound("tool", name)
        return found[0]


class Providers:
    """Who provides what on this server."""

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


def _builtin(group: str) -> Toolgroup:
    return Toolgroup(identifier=group, provider_resource_id=group, provider_id=BUILTIN)
