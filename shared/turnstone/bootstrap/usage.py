"""What was spent, and what a model is shown, for those who ask."""

from turnstone.bootstrap.adapters import AnyPorts
from turnstone.bootstrap.registries import Registries
from turnstone.config import Settings
from turnstone.services.access import AccessRules
from turnstone.services.session_context import SessionContexts
from turnstone.services.usage import Usage, UsageDeps
from turnstone.store.sessions import SessionStore
from turnstone.store.turns import TurnStore
from turnstone.store.usage import UsageStore


def build_usage(ports: AnyPorts, settings: Settings, rules: AccessRules, registries: Registries) -> Usage:
    """Return what tells of it."""
    store, clock, route_of = ports.store, ports.clock, registries.routing.route
    contexts = SessionContexts(TurnStore(store, registries.directory), rules, route_of, clock, settings.context_tokens)
    return Usage(UsageDeps(UsageStore(store), SessionStore(store), rules, route_of, clock), contexts)
