"""The shields of a tenant by their names: those that come with the server, and those registered."""

from collections.abc import Iterable, Mapping

from turnstone.domain.registry.registry import Shield
from turnstone.store.registry.snapshot import RegistrySnapshot


class ShieldLookup:
    """Finds shields. An unregistered one may be found for as long as the registry's snapshot is cached."""

    def __init__(self, directory: RegistrySnapshot, configured: Mapping[str, Shield]) -> None:
        self._directory = directory
        self.configured = configured

    def find(self, tenant: str, shield_ids: Iterable[str]) -> dict[str, Shield]:
        """Return the shields that exist, by name. Raises StoreUnavailable.

        Reads the directory again for missing names, which another process may have just registered.
        """
        names = list(dict.fromkeys(shield_ids))
        found = {name: self.configured[name] for name in names if name in self.configured}
        found |= self._registered(tenant, [name for name in names if name not in found])
        if missing := [name for name in names if name not in found]:
            self._directory.refresh(tenant)
            found |= self._registered(tenant, missing)
        return found

    def _registered(self, tenant: str, names: list[str]) -> dict[str, Shield]:
        entries = {name: self._directory.find(tenant, "shield", name) for name in names}
        return {name: Shield.model_validate(entry) for name, entry in entries.items() if entry is not None}
