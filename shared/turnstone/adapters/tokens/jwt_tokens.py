"""Verify JSON Web Tokens of one issuer, signed with its private keys."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jwt

from turnstone.adapters.tokens.issuer_keys import IssuerKeys
from turnstone.domain.access.identity import Identity, caller_named
from turnstone.domain.errors import Unauthenticated

log = logging.getLogger(__name__)
# Asymmetric algorithms only: with any other, a verifier could also sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
REQUIRED = ("exp", "iss", "aud", "sub")
LEEWAY_S = 30
LISTS = ("roles", "teams", "projects", "namespaces")
LAST_SECOND = 253_402_300_799  # of the year 9999, the last of a datetime


@dataclass(frozen=True, slots=True)
class Expected:
    """The required contents of a token.

    Attributes:
        claims: the claim of each field of the caller, by the field's name.
        tenant: the tenant of all callers, None if a claim names it.
    """

    issuer: str
    audience: str
    claims: Mapping[str, str]
    tenant: str | None = None


class JwtTokens:
    def __init__(self, keys: IssuerKeys, expected: Expected) -> None:
        self._keys = keys
        self._expected = expected

    def identity(self, token: str) -> Identity:
        """Return the token's caller. Raises Unauthenticated, and IssuerUnavailable without the issuer's keys."""
        try:
            claims = self._checked(token)
            return self._named(claims)
        except (jwt.PyJWTError, Unauthenticated, ValueError, TypeError, OverflowError, RecursionError) as error:
            log.info("a token was refused: %s", type(error).__name__)  # its type only: messages may quote the token
            raise Unauthenticated from None

    def _checked(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        key_id, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(key_id, str) or algorithm not in ALGORITHMS:
            raise Unauthenticated
        key = self._keys.key(key_id)
        if key is None or key.get("alg", algorithm) != algorithm:
            raise Unauthenticated
        claims: dict[str, Any] = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm),
            algorithms=[algorithm],
            audience=self._expected.audience,
            issuer=self._expected.issuer,
            leeway=LEEWAY_S,
            options={"require": list(REQUIRED), "enforce_minimum_key_length": True},
        )
        return claims

    def _named(self, claims: Mapping[str, Any]) -> Identity:
        """Return the caller named by the claims. A list's claim may be missing, or a single text."""
        fields = {name: claims[claim] for name, claim in self._expected.claims.items() if claim in claims}
        for name in LISTS:
            if isinstance(fields.get(name), str):
                fields[name] = [fields[name]]
        if self._expected.tenant is not None:
            fields["tenant"] = self._expected.tenant
        expires_at = datetime.fromtimestamp(min(int(claims["exp"]) + LEEWAY_S, LAST_SECOND), UTC)
        return Identity(caller_named(fields), expires_at)
