"""Building of authentication, and of the API keys for an operator's commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.settings.auth_settings import AuthorizerSettings, AuthSettings
from turnstone.settings.config import InvalidSettings, load_settings

if TYPE_CHECKING:
    from turnstone.ports.storage import RangeStore
    from turnstone.services.access.api_keys import ApiKeys
    from turnstone.services.access.authentication import Authenticator, TokenVerifier

NO_CACHE = timedelta(0)


def build_authenticator(
    settings: AuthSettings, store: Callable[[], RangeStore], cached_for: timedelta
) -> Authenticator | None:
    """Return the authenticator of callers by their tokens, None if authentication is off."""
    if settings.auth == "off":
        return None
    from turnstone.services.access.authentication import Authenticator

    tokens: TokenVerifier = _jwt_tokens(settings) if settings.auth == "jwt" else api_keys_in(store())
    return Authenticator(tokens, SystemClock(), cached_for)


def build_authorizer() -> Authenticator:
    """Return the authenticator of the API's authorizer, without a cache: the gateway caches its answers."""
    settings = load_settings(AuthorizerSettings)
    authenticator = build_authenticator(settings, lambda: table_named(settings.table), NO_CACHE)
    if authenticator is None:
        raise InvalidSettings("TURNSTONE_AUTH: an authorizer has nothing to do while it is off")
    return authenticator


def api_keys_in(store: RangeStore) -> ApiKeys:
    from turnstone.services.access.api_keys import ApiKeys
    from turnstone.store.access.api_keys import ApiKeyStore

    return ApiKeys(ApiKeyStore(store), SystemClock(), RandomIds(), os.urandom)


def _jwt_tokens(settings: AuthSettings) -> TokenVerifier:
    from turnstone.adapters.tokens.issuer_keys import IssuerKeys  # with the cryptography they need: 70 ms
    from turnstone.adapters.tokens.jwt_tokens import Expected, JwtTokens
    from turnstone.domain.access.identity import MAX_TENANT_BYTES, is_usable_tenant

    issuer, audience, url = settings.jwt_issuer, settings.jwt_audience, settings.jwt_jwks_url
    if issuer is None or audience is None or url is None:
        raise InvalidSettings("TURNSTONE_JWT_ISSUER, TURNSTONE_JWT_AUDIENCE, TURNSTONE_JWT_JWKS_URL: must be set")
    if settings.jwt_tenant is not None and not is_usable_tenant(settings.jwt_tenant):
        raise InvalidSettings(
            f"TURNSTONE_JWT_TENANT: must be UTF-8, of {MAX_TENANT_BYTES} bytes at most (% | : # count 3)"
        )
    return JwtTokens(IssuerKeys(url), Expected(issuer, audience, settings.jwt_claims, settings.jwt_tenant))


def table_named(name: str) -> RangeStore:
    try:
        from turnstone.adapters.aws.aws_clients import AwsClients
        from turnstone.adapters.aws.dynamodb import DynamoRangeStore
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f"TURNSTONE_TABLE: needs the package {missing.name}, pip install -e '.[aws]'"
        ) from missing
    return DynamoRangeStore(AwsClients().client("dynamodb"), name)
