"""Settings of authentication: a contradiction stops the start with an error that names both settings.

Covers: bootstrap/callers, settings/auth_settings, settings/config, settings/local_settings
"""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from turnstone.bootstrap.callers import build_authenticator
from turnstone.settings.auth_settings import AuthorizerSettings, TableSettings
from turnstone.settings.config import InvalidSettings, load_settings
from turnstone.settings.local_settings import LocalSettings

JWT = {
    "AUTH": "jwt",
    "JWT_ISSUER": "https://issuer.example",
    "JWT_AUDIENCE": "turnstone",
    "JWT_JWKS_URL": "https://issuer.example/keys",
    "JWT_CLAIMS": "tenant=org",
}
REQUIRED = {"TABLE": "turns", "BUCKET": "payloads"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("TURNSTONE_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def local(environment: pytest.MonkeyPatch, **given: str) -> LocalSettings:
    for name, value in given.items():
        environment.setenv(f"TURNSTONE_{name}", value)
    return load_settings(LocalSettings)


def test_a_local_server_needs_no_setting(environment: pytest.MonkeyPatch) -> None:
    settings = local(environment)
    assert (settings.auth, str(settings.host), settings.allow_open) == ("off", "127.0.0.1", False)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "::ffff:192.0.2.1", "169.254.169.254"])
def test_a_public_server_without_authentication_needs_an_explicit_setting(
    environment: pytest.MonkeyPatch, host: str
) -> None:
    with pytest.raises(InvalidSettings, match=r"TURNSTONE_HOST: .*TURNSTONE_AUTH.*TURNSTONE_ALLOW_OPEN=true"):
        local(environment, HOST=host)
    assert local(environment, HOST=host, ALLOW_OPEN="true").allow_open
    assert local(environment, HOST=host, ALLOW_OPEN="", AUTH="api_keys").auth == "api_keys"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_any_loopback_address_is_local(environment: pytest.MonkeyPatch, host: str) -> None:
    assert str(local(environment, HOST=host).host) == host


CONTRADICTIONS = [
    ({"AUTH": "api_keys", "ALLOW_OPEN": "true"}, "ALLOW_OPEN"),
    ({"AUTH": "api_keys", "JWT_ISSUER": "x"}, "JWT_ISSUER"),
    ({"JWT_TENANT": "x"}, "JWT_TENANT"),
    ({"JWT_CLAIMS": "tenant=org"}, "JWT_CLAIMS"),
    ({"AUTH_CACHE_SECONDS": "5"}, "AUTH_CACHE_SECONDS"),
    ({**JWT, "JWT_ISSUER": ""}, "JWT_ISSUER"),
    ({**JWT, "JWT_AUDIENCE": ""}, "JWT_AUDIENCE"),
    ({**JWT, "JWT_JWKS_URL": ""}, "JWT_JWKS_URL"),
    ({**JWT, "JWT_CLAIMS": ""}, "JWT_TENANT"),
    ({**JWT, "JWT_TENANT": "acme"}, "JWT_TENANT"),
    ({**JWT, "JWT_CLAIMS": "roles=groups"}, "JWT_TENANT"),
]
WRONG = [
    ({"AUTH": "on"}, "AUTH"),
    ({"AUTH": "apikeys"}, "AUTH"),
    ({"HOST": "example.com"}, "HOST"),
    ({"HOST": "127.0.0.1:80"}, "HOST"),
    ({"ALLOW_OPEN": "maybe"}, "ALLOW_OPEN"),
    ({"AUTH": "api_keys", "AUTH_CACHE_SECONDS": "61"}, "AUTH_CACHE_SECONDS"),
    *(
        ({**JWT, "JWT_CLAIMS": claims}, "JWT_CLAIMS")
        for claims in ("org", "tenant=", "=org", "tenant=org,tenant=o", "tenant=org,", "owner=sub")
    ),
    *(
        ({**JWT, "JWT_JWKS_URL": url}, "JWT_JWKS_URL")
        for url in (
            "http://issuer.example/keys",
            "http://127.0.0.1.evil.example/keys",
            "http://127.0.0.1@evil.example/keys",
            "http://localhost:1@evil.example/",
            "https://user:pass@issuer.example/keys",
            "https://",
            "https://[broken",
            "https://issuer.example/a b",
            "file:///etc/keys",
            "ftp://localhost/keys",
        )
    ),
]


@pytest.mark.parametrize(("given", "named"), [*CONTRADICTIONS, *WRONG])
def test_an_error_names_the_setting_and_shows_no_value(
    environment: pytest.MonkeyPatch, given: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidSettings) as raised:
        local(environment, **given)
    assert str(raised.value).startswith(f"TURNSTONE_{named}: ")
    assert "pass" not in str(raised.value)
    assert "evil" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/keys", "http://localhost/keys", "http://[::1]:1/keys"])
def test_an_issuer_on_loopback_needs_no_encryption(environment: pytest.MonkeyPatch, url: str) -> None:
    assert local(environment, **{**JWT, "JWT_JWKS_URL": url}).jwt_jwks_url == url


def test_claims_are_named_field_by_field(environment: pytest.MonkeyPatch) -> None:
    named = "tenant=org, principal=email,roles=https://issuer.example/roles=x"
    settings = local(environment, **{**JWT, "JWT_CLAIMS": named})
    expected = {"tenant": "org", "principal": "email", "roles": "https://issuer.example/roles=x"}
    assert settings.jwt_claims == expected


def test_the_subject_is_the_principal_and_one_tenant_may_be_all_callers(environment: pytest.MonkeyPatch) -> None:
    settings = local(environment, **{**JWT, "JWT_CLAIMS": "", "JWT_TENANT": "acme"})
    assert (settings.jwt_claims, settings.jwt_tenant) == ({"principal": "sub"}, "acme")


@pytest.mark.parametrize("tenant", ["x" * 257, ":" * 86], ids=["long", "long as a key"])
def test_a_tenant_whose_turns_could_not_be_recovered_does_not_start(
    environment: pytest.MonkeyPatch, tenant: str
) -> None:
    settings = local(environment, **{**JWT, "JWT_CLAIMS": "", "JWT_TENANT": tenant})
    with pytest.raises(InvalidSettings, match="TURNSTONE_JWT_TENANT: must be UTF-8, of 256 bytes at most"):
        build_authenticator(settings, lambda: pytest.fail("tokens need no store"), timedelta(0))


@pytest.mark.parametrize("auth", ["", "off"])
def test_an_authorizer_without_anything_to_check_does_not_start(environment: pytest.MonkeyPatch, auth: str) -> None:
    for name, value in {**REQUIRED, "AUTH": auth}.items():
        environment.setenv(f"TURNSTONE_{name}", value)
    with pytest.raises(InvalidSettings, match="TURNSTONE_AUTH: "):
        load_settings(AuthorizerSettings)


def test_an_authorizers_contradictions_are_named_too(environment: pytest.MonkeyPatch) -> None:
    for name, value in {**REQUIRED, **JWT, "AUTH": "api_keys"}.items():
        environment.setenv(f"TURNSTONE_{name}", value)
    with pytest.raises(InvalidSettings, match="TURNSTONE_JWT_ISSUER: "):
        load_settings(AuthorizerSettings)


def test_a_command_needs_the_table_only(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TURNSTONE_TABLE", "turns")
    assert load_settings(TableSettings).table == "turns"
