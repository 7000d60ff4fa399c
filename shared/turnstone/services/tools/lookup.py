"""The toolgroups of a tenant by their names: those that come with the server, the operator's, and those registered."""

from collections.abc import Mapping

from turnstone.domain.registry.registry import BUILTIN, Toolgroup
from turnstone.ports.tools import ToolKinds
from turnstone.store.registry.snapshot import RegistrySnapshot


class ToolgroupLookup:
    """Finds toolgroups. An unregistered one may be found for as long as the registry's snapshot is cached."""

    def __init__(self, directory: RegistrySnapshot, kinds: ToolKinds, configured: Mapping[str, Toolgroup]) -> None:
        self._directory = directory
        self._kinds = kinds
        self.configured = configured

    def own(self) -> dict[str, Toolgroup]:
        """Return the toolgroups of every tenant, by name."""
        return {**{name: builtin_toolgroup(name) for name in self._kinds.builtin()}, **self.configured}

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


def builtin_toolgroup(name: str) -> Toolgroup:
    """Return the group of that name as it comes with a server."""
    return Toolgroup(identifier=name, provider_resource_id=name, provider_id=BUILTIN)
