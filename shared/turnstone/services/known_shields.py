"""The shields of a tenant by their names: those that come with the server, and those registered, known for a while."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock

from turnstone.domain.registry import Shield
from turnstone.ports import Clock
from turnstone.store.registry import RegistryStore

KNOWN_FOR = timedelta(seconds=10)
MOST_KNOWN = 1_000


class KnownShields:
    """Finds shields; what was registered is read once in ten seconds at most.

    So long a shield may be used, in other processes, after it was unregistered.
    """

    def __init__(self, store: RegistryStore[Shield], clock: Clock, configured: Mapping[str, Shield]) -> None:
        self._store = store
        self._clock = clock
        self.configured = configured
        self._lock = Lock()
        self._known: dict[tuple[str, str], tuple[Shield, datetime]] = {}

    def find(self, tenant: str, shield_ids: Sequence[str]) -> dict[str, Shield]:
        """Return those of the shields that there are, by their names. Raises StoreUnavailable."""
        now = self._clock.now()
        with self._lock:
            remembered = {name: self._known.get((tenant, name)) for name in shield_ids}
        found = {name: known[0] for name, known in remembered.items() if known is not None and now < known[1]}
        found |= {name: self.configured[name] for name in shield_ids if name in self.configured}
        unknown = [name for name in dict.fromkeys(shield_ids) if name not in found]
        if not unknown:
            return found
        read = self._store.find_all(tenant, unknown)
        with self._lock:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known |= {(tenant, name): (shield, now + KNOWN_FOR) for name, shield in read.items()}
        return found | read

    def forget(self, tenant: str, shield_id: str) -> None:
        """Read the shield anew when it is asked for next: it was changed here."""
        with self._lock:
            self._known.pop((tenant, shield_id), None)
