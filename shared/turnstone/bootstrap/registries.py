"""What agents can name, as the services have it. Each is loaded when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from turnstone.config import OFFLINE

if TYPE_CHECKING:
    from turnstone.bootstrap.adapters import AnyPorts
    from turnstone.config import Settings
    from turnstone.domain.routing import KnownModels
    from turnstone.services.registry import Models, Providers, Shields, Toolgroups
    from turnstone.services.routing import Routing
    from turnstone.store.directory import Directory


class Registries:
    """The registries over some ports."""

    def __init__(self, ports: AnyPorts, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings

    @cached_property
    def models(self) -> Models:
        from turnstone.domain.registry import Model
        from turnstone.services.registry import Models
        from turnstone.store.registry import RegistryStore

        ports = self._ports
        store = RegistryStore(ports.store, "model", Model, self.directory.forget)
        return Models(store, self._known, ports.inference, ports.clock)

    @cached_property
    def providers(self) -> Providers:
        from turnstone.domain.registry import providers
        from turnstone.services.registry import Providers

        return Providers(providers(self._known.providers))

    @cached_property
    def toolgroups(self) -> Toolgroups:
        from turnstone.domain.registry import Toolgroup
        from turnstone.services.registry import Toolgroups
        from turnstone.store.registry import RegistryStore

        ports = self._ports
        return Toolgroups(
            RegistryStore(ports.store, "toolgroup", Toolgroup, self.directory.forget), ports.tools, ports.clock
        )

    @cached_property
    def shields(self) -> Shields:
        from turnstone.domain.registry import Shield
        from turnstone.services.registry import Shields
        from turnstone.store.registry import RegistryStore

        return Shields(RegistryStore(self._ports.store, "shield", Shield, self.directory.forget), self._ports.clock)

    @cached_property
    def routing(self) -> Routing:
        from turnstone.services.routing import Routing

        return Routing(self._known, self.directory)

    @cached_property
    def directory(self) -> Directory:
        from turnstone.store.directory import Directory

        return Directory(self._ports.store, self._ports.clock)

    @cached_property
    def _known(self) -> KnownModels:
        from turnstone.domain.routing import MODELS, KnownModels

        if self._ports.catalogue is None:
            kind = "offline" if self._settings.model_url == OFFLINE else "openai"
            return KnownModels({MODELS: kind}, MODELS)
        return self._ports.catalogue.known()
