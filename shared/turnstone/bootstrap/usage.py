"""Building of the use case that reports the tokens spent."""

from turnstone.bootstrap.adapters import AnyPorts
from turnstone.bootstrap.registries import Registries
from turnstone.services.access.access import AccessRules
from turnstone.services.usage.usage import Usage, UsageDeps
from turnstone.store.sessions.sessions import SessionStore
from turnstone.store.usage.usage import UsageStore


def build_usage(ports: AnyPorts, rules: AccessRules, registries: Registries) -> Usage:
    """Return the use case that reports the tokens spent."""
    deps = UsageDeps(UsageStore(ports.store), SessionStore(ports.store), rules, registries.routing.route, ports.clock)
    return Usage(deps)
