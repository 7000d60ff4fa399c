"""What was spent, and what a model is shown, for those who ask."""

from turnstone.bootstrap.adapters import AnyPorts
from turnstone.config import Settings
from turnstone.services.access import AccessRules
from turnstone.services.routes import RouteOf
from turnstone.services.session_context import SessionContexts
from turnstone.services.usage import Usage, UsageDeps
from turnstone.store.sessions import SessionStore
from turnstone.store.turns import TurnStore
from turnstone.store.usage import UsageStore


def build_usage(ports: AnyPorts, settings: Settings, rules: AccessRules, route_of: RouteOf) -> Usage:
    """Return what tells of it."""
    store, clock = ports.store, ports.clock
    contexts = SessionContexts(TurnStore(store), rules, route_of, clock, settings.context_tokens)
    return Usage(UsageDeps(UsageStore(store), SessionStore(store), rules, route_of, clock), contexts)
