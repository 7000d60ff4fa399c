"""The toolgroups of a tenant by their names: those that come with the server, the operator's, and those registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from turnstone.domain.registry.registry import BUILTIN, Toolgroup
from turnstone.ports.tools import ToolKinds
from turnstone.store.registry.snapshot import RegistrySnapshot

if TYPE_CHECKING:
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.services.tools.own_toolboxes import OwnToolgroup

NO_SERVICES: Mapping[str, OwnToolgroup] = MappingProxyType({})
FindPythonTools = Callable[[str, Sequence[str]], Mapping[str, "ToolDef"]]


class ToolgroupLookup:
    """Finds toolgroups. An unregistered one may be found for as long as the registry's snapshot is cached."""

    def __init__(
        self,
        directory: RegistrySnapshot,
        kinds: ToolKinds,
        configured: Mapping[str, Toolgroup],
        of_services: Mapping[str, OwnToolgroup] = NO_SERVICES,
        python_tools: FindPythonTools = lambda _, __: {},
    ) -> None:
        """Take the operator's groups, and those of the server's services, which are among the builtin ones.

        Args:
            python_tools: returns those of a tenant's tools of Python that exist, by their ids.
        """
        self._directory = directory
        self._kinds = kinds
        self.configured = configured
        self._of_services = of_services
        self.python_tools = python_tools

    def own(self) -> dict[str, Toolgroup]:
        """Return the toolgroups of every tenant, by name."""
        return {**{name: builtin_toolgroup(name) for name in self._kinds.builtin()}, **self.configured}

    def listed(self) -> dict[str, Toolgroup]:
        """Return those of every tenant's toolgroups that lists show, by name."""
        hidden = {name for name, toolgroup in self._of_services.items() if not toolgroup.is_listed}
        return {name: group for name, group in self.own().items() if name not in hidden}

    def may_be_registered(self, name: str) -> bool:
        """Return whether a tenant may register the builtin toolgroup of that name, as it is."""
        toolgroup = self._of_services.get(name)
        return toolgroup is None or toolgroup.may_be_registered

    def builtin(self, name: str) -> Toolgroup | None:
        """Return the builtin toolgroup of that name, None if there is none. Reads nothing from the store."""
        return builtin_toolgroup(name) if name in self._kinds.builtin() else None

    def find(self, tenant: str, name: str) -> Toolgroup | None:
        """Return the group, None if there is none. Raises StoreUnavailable.

        Reads the directory again for a missing name, which another process may have just registered.
        """
        if own := self.builtin(name) or self.configured.get(name):
            return own
        entry = self._directory.find(tenant, "toolgroup", name)
        if entry is None:
            entry = self._directory.refresh(tenant).get("toolgroup", {}).get(name)
        return None if entry is None else Toolgroup.model_validate(entry)


@lru_cache(maxsize=64)  # a turn looks each of its groups up twice
def builtin_toolgroup(name: str) -> Toolgroup:
    """Return the group of that name as it comes with a server."""
    return Toolgroup(identifier=name, provider_resource_id=name, provider_id=BUILTIN)


def no_registration_of(name: str) -> str:
    """Return the refusal to register a toolgroup of one of the server's services."""
    return f"{name!r} belongs to a service of this server and can't be registered; name it in an agent's toolgroups"
