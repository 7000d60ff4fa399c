"""How callers are known, and the API keys that an operator works on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.settings.auth_settings import AuthorizerSettings, AuthSettings, TableSettings
from turnstone.settings.config import InvalidSettings, load_settings, names_a_table

if TYPE_CHECKING:
    from turnstone.ports import RangeStore
    from turnstone.services.access.api_keys import ApiKeys
    from turnstone.services.access.authentication import Authenticator, Tokens

AT_ONCE = timedelta(0)


def build_authenticator(
    settings: AuthSettings, store: Callable[[], RangeStore], cached_for: timedelta
) -> Authenticator | None:
    """Return what knows callers by their tokens, None if nobody has to prove who they are."""
    if settings.auth == "off":
        return None
    from turnstone.services.access.authentication import Authenticator

    tokens: Tokens = _jwt_tokens(settings) if settings.auth == "jwt" else _api_keys(store())
    return Authenticator(tokens, SystemClock(), cached_for)


def build_authorizer() -> Authenticator:
    """Return what knows callers in the API's authorizer, each time anew: the gateway remembers its answers itself."""
    settings = load_settings(AuthorizerSettings)
    authenticator = build_authenticator(settings, lambda: _table(settings.table), AT_ONCE)
    if authenticator is None:
        raise InvalidSettings("TURNSTONE_AUTH: an authorizer has nothing to do while it is off")
    return authenticator


@contextmanager
def operated_keys(*, may_begin: bool = False) -> Iterator[ApiKeys]:
    """Lend the API keys of the table that TURNSTONE_TABLE names, else of the data directory.

    Only who `may_begin` may find no data there, and has it made. Raises InvalidSettings, StoreUnavailable.
    """
    if names_a_table():
        yield _api_keys(_table(load_settings(TableSettings).table))
        return
    from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
    from turnstone.bootstrap.places.operated_place import operated_database
    from turnstone.settings.local_settings import LocalSettings

    local = load_settings(LocalSettings)
    store = SqliteRangeStore(operated_database(local.data_dir, may_begin=may_begin), local.store_wait_seconds)
    try:
        yield _api_keys(store)
    finally:
        store.close()


def _api_keys(store: RangeStore) -> ApiKeys:
    from turnstone.services.access.api_keys import ApiKeys
    from turnstone.store.access.api_keys import ApiKeyStore

    return ApiKeys(ApiKeyStore(store), SystemClock(), RandomIds(), os.urandom)


def _jwt_tokens(settings: AuthSettings) -> Tokens:
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


def _table(name: str) -> RangeStore:
    try:
        from turnstone.adapters.aws.aws_clients import AwsClients
        from turnstone.adapters.aws.dynamodb import DynamoRangeStore
    except ModuleNotFoundError as missing:
        raise InvalidSettings(f"TURNSTONE_TABLE: needs the package {missing.name}, pip install '.[aws]'") from missing
    return DynamoRangeStore(AwsClients().client("dynamodb"), name)
