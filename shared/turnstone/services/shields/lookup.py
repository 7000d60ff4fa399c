"""The shields of a tenant by their names: those that come with the server, and those registered."""

from collections.abc import Iterable, Mapping

from turnstone.domain.registry.registry import Shield
from turnstone.store.registry.snapshot import RegistrySnapshot


class ShieldLookup:
    """Finds shields. One that was unregistered may be found for as long as the directory is known."""

    def __init__(self, directory: RegistrySnapshot, configured: Mapping[str, Shield]) -> None:
        self._directory = directory
        self.configured = configured

    def find(self, tenant: str, shield_ids: Iterable[str]) -> dict[str, Shield]:
        """Return those of the shields that there are, by their names. Raises StoreUnavailable.

        What the directory does not have may have just been registered by another process; then it is read again.
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
