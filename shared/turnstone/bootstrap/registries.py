"""What agents can name, as the services have it. Each is loaded when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnstone.bootstrap.adapters import AnyPorts
    from turnstone.domain.catalogue import Catalogue
    from turnstone.services.registry import Models, Providers, Shields, Toolgroups
    from turnstone.services.routing import Routing
    from turnstone.store.directory import Directory


class Registries:
    """The registries over some ports."""

    def __init__(self, ports: AnyPorts) -> None:
        self._ports = ports

    @cached_property
    def models(self) -> Models:
        from turnstone.domain.registry import Model
        from turnstone.services.registry import Models
        from turnstone.store.registry import RegistryStore

        ports = self._ports
        store = RegistryStore(ports.store, "model", Model, self.directory.forget)
        return Models(store, self.catalogue, ports.inference, ports.clock)

    @cached_property
    def providers(self) -> Providers:
        from turnstone.domain.registry import providers
        from turnstone.services.registry import Providers

        return Providers(providers({name: entry.type for name, entry in self.catalogue.providers.items()}))

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

        return Routing(self.catalogue, self.directory)

    @cached_property
    def directory(self) -> Directory:
        from turnstone.store.directory import Directory

        return Directory(self._ports.store, self._ports.clock)

    @cached_property
    def catalogue(self) -> Catalogue:
        from turnstone.domain.catalogue import Catalogue, OfflineProvider
        from turnstone.domain.registry import MODELS

        return self._ports.catalogue or Catalogue(providers={MODELS: OfflineProvider(type="offline")})
