"""What was spent, and what a model is shown, for those who ask."""

from turnstone.bootstrap.adapters import AnyPorts
from turnstone.bootstrap.registries import Registries
from turnstone.services.access.access import AccessRules
from turnstone.services.sessions.session_context import SessionContexts
from turnstone.services.usage.usage import Usage, UsageDeps
from turnstone.settings.config import Settings
from turnstone.store.sessions.sessions import SessionStore
from turnstone.store.sessions.turns import TurnStore
from turnstone.store.usage.usage import UsageStore


def build_usage(ports: AnyPorts, settings: Settings, rules: AccessRules, registries: Registries) -> Usage:
    """Return what tells of it."""
    store, clock, route_of = ports.store, ports.clock, registries.routing.route
    contexts = SessionContexts(TurnStore(store, registries.directory), rules, route_of, clock, settings.context_tokens)
    return Usage(UsageDeps(UsageStore(store), SessionStore(store), rules, route_of, clock), contexts)
