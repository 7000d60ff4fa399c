"""Shields: the kinds there are on one machine, and what has them judge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from turnstone.domain.errors import ShieldFailed
from turnstone.domain.registry import Shield
from turnstone.services.known_shields import KnownShields
from turnstone.services.shielding import Shieldings
from turnstone.store.registry import RegistryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnstone.bootstrap.adapters import AnyPorts
    from turnstone.ports import Inference, ShieldKinds
    from turnstone.services.shields import Shields


@dataclass(frozen=True, slots=True)
class ShieldServices:
    """The services about shields, which share what they know."""

    store: RegistryStore[Shield]
    known: KnownShields
    shieldings: Shieldings

    def shields(self, ports: AnyPorts) -> Shields:
        import turnstone.adapters.shields.llama_guard
        import turnstone.adapters.shields.pattern  # noqa: F401 - who registers a shield finds both loaded
        from turnstone.services.shields import Shields

        return Shields(self.store, self.known, self.shieldings, ports.shields, ports.clock)


def build_shield_services(ports: AnyPorts, configured: Mapping[str, Shield]) -> ShieldServices:
    store = RegistryStore(ports.store, "shield", Shield)
    known = KnownShields(store, ports.clock, configured)
    return ShieldServices(store, known, Shieldings(known, ports.shields))


def build_local_shields(inference: Inference) -> ShieldKinds:
    """Return the kinds of shields of a server on one machine."""
    from turnstone.adapters.shields.kinds import EveryShieldKind

    return EveryShieldKind(lambda: inference, _bedrock)


@cache
def _bedrock() -> Any:
    """Return a client of Bedrock. Raises ShieldFailed, StoreUnavailable if there can be none."""
    try:
        from turnstone.adapters.aws_clients import AwsClients
    except ModuleNotFoundError as missing:
        raise ShieldFailed(f"Bedrock needs the package {missing.name}, pip install '.[aws]'") from missing
    return AwsClients().client("bedrock-runtime")
