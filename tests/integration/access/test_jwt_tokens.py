"""Tokens of an issuer: only a valid token that the issuer signed for this audience names a caller.

Covers: adapters/tokens/issuer_keys, adapters/tokens/jwt_tokens
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer, claims, public_jwk, rsa_key
from turnstone.adapters.tokens.issuer_keys import FETCHED_EVERY_S, KEPT_S, MAX_BYTES, IssuerKeys
from turnstone.adapters.tokens.jwt_tokens import Expected, JwtTokens
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import IssuerUnavailable, Unauthenticated

MAPPED = {
    "tenant": "org",
    "principal": "sub",
    "roles": "https://issuer.example/roles",
    "teams": "groups",
    "projects": "projects",
}
ROLES = MAPPED["roles"]
LEEWAY_S = 30


class Ticks:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def shared_issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        issuer.add("one")
        yield issuer


@pytest.fixture
def issuer(shared_issuer: Issuer) -> Iterator[Issuer]:
    """The issuer with its one original key."""
    shared_issuer.fetches, shared_issuer.answer, shared_issuer.takes_s = 0, None, 0.0
    yield shared_issuer
    shared_issuer.keys = {"one": shared_issuer.keys["one"]}


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def tokens_of(issuer: Issuer, ticks: Ticks | None = None, **expected: Any) -> JwtTokens:
    keys = IssuerKeys(issuer.url, ticks or Ticks())
    return JwtTokens(keys, Expected(**{"issuer": ISSUER, "audience": AUDIENCE, "claims": MAPPED, **expected}))


def is_refused(tokens: JwtTokens, token: str) -> bool:
    try:
        tokens.identity(token)
    except Unauthenticated:
        return True
    return False


# ---- accepted tokens


def test_a_token_names_the_caller_of_its_claims(issuer: Issuer) -> None:
    token = issuer.token("one", **{ROLES: ["admin", "staff"], "groups": "red", "projects": None, "namespaces": ["x"]})
    identity = tokens_of(issuer).identity(token)
    assert identity.caller == Caller(tenant="acme", principal="ann", roles=("admin", "staff"), teams=("red",))


def test_a_token_is_good_until_it_expires_and_the_clocks_may_differ(issuer: Issuer) -> None:
    expires = int(time.time()) + 100
    until = tokens_of(issuer).identity(issuer.token("one", exp=expires)).valid_until
    assert until is not None
    assert round(until.timestamp()) == expires + LEEWAY_S


def test_one_tenant_may_be_all_callers(issuer: Issuer) -> None:
    tokens = tokens_of(issuer, claims={"principal": "email"}, tenant="the-firm")
    token = issuer.token("one", email="ann@example.com", org="another")
    assert tokens.identity(token).caller == Caller(tenant="the-firm", principal="ann@example.com")


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("RS384", None),
        ("RS512", None),
        ("PS256", None),
        ("PS512", None),
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
        ("ES384", ec.generate_private_key(ec.SECP384R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_asymmetric_signatures_are_taken(issuer: Issuer, algorithm: str, key: Any) -> None:
    issuer.add("two", key or issuer.keys["one"])
    assert tokens_of(issuer).identity(issuer.token("two", algorithm)).caller.principal == "ann"


def test_an_audience_may_be_one_of_several(issuer: Issuer) -> None:
    assert not is_refused(tokens_of(issuer), issuer.token("one", aud=["others", AUDIENCE]))


# ---- refused tokens


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {"exp": int(time.time()) - LEEWAY_S - 5},
    "without an end": {"exp": None},
    "an end that is no time": {"exp": "soon"},
    "an end beyond all time": {"exp": float("inf")},
    "not good yet": {"nbf": int(time.time()) + 3_600},
    "issued later": {"iat": int(time.time()) + 3_600},
    "of another issuer": {"iss": "https://issuer.example.evil"},
    "of no issuer": {"iss": None},
    "for others": {"aud": "turnstone-2"},
    "for nobody": {"aud": None},
    "for no one in a list": {"aud": []},
    "of no subject": {"sub": None},
    "of an empty subject": {"sub": ""},
    "of a subject that is a number": {"sub": 7},
    "of no tenant": {"org": None},
    "of an empty tenant": {"org": ""},
    "of a tenant with too long a name": {"org": "x" * 257},
    "of two tenants": {"org": ["acme", "other"]},
    "with a tenant of half a character": {"org": "\ud800"},
    "with roles that are no texts": {ROLES: [1]},
    "with roles that are an object": {ROLES: {"admin": True}},
    "with a role of half a character": {ROLES: ["\udfff"]},
    "with teams that are true": {"groups": True},
    "with teams that are null": {"groups": ...},
}


@pytest.mark.parametrize("changed", BAD_CLAIMS.values(), ids=BAD_CLAIMS)
def test_a_token_with_an_invalid_claim_names_no_caller(issuer: Issuer, changed: dict[str, Any]) -> None:
    made = claims()
    for name, value in changed.items():
        made[name] = None if value is ... else value
        if value is None:
            del made[name]
    token = jwt.PyJWS().encode(json.dumps(made).encode(), issuer.keys["one"], "RS256", {"kid": "one"})  # type: ignore[arg-type]
    tokens = tokens_of(issuer)
    assert not is_refused(tokens, issuer.token("one"))
    assert is_refused(tokens, token)


def test_the_reason_why_a_tenant_is_refused_is_logged_without_its_name(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert is_refused(tokens_of(issuer), issuer.token("one", org="x" * 257))
        assert not is_refused(tokens_of(issuer), issuer.token("one", org="x" * 256))
    assert "UnusableTenant" in caplog.text
    assert "xxx" not in caplog.text


def unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims()).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "RS256", None, 7, ["RS256"]])
def test_a_token_without_a_signature_names_no_caller(issuer: Issuer, algorithm: Any) -> None:
    assert is_refused(tokens_of(issuer), unsigned({"alg": algorithm, "typ": "JWT", "kid": "one"}))


def test_a_public_key_is_no_secret_that_signs(issuer: Issuer) -> None:
    """A verifier that takes HS256 instead of RS256 checks a signature with a public value."""
    public = issuer.keys["one"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, body, _ = unsigned({"alg": "HS256", "kid": "one"}).split(".")
    signed = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(f"{header}.{body}".encode(), public)
    assert is_refused(tokens_of(issuer), unsigned({"alg": "HS256", "kid": "one"}, signed))


def test_a_secret_among_an_issuers_keys_names_no_caller(issuer: Issuer) -> None:
    secret = b"x" * 64
    encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    issuer.answer = 200, json.dumps({"keys": [{"kty": "oct", "k": encoded, "kid": "s"}]}).encode()
    assert is_refused(tokens_of(issuer), jwt.encode(claims(), secret, "HS256", {"kid": "s"}))


def test_another_key_under_a_published_id_names_no_caller(issuer: Issuer) -> None:
    assert is_refused(tokens_of(issuer), jwt.encode(claims(), rsa_key(), "RS256", {"kid": "one"}))


def test_a_key_of_the_senders_own_names_no_caller(issuer: Issuer) -> None:
    own = rsa_key()
    header = {"kid": "own", "jwk": public_jwk(own), "jku": "https://evil.example/keys"}
    assert is_refused(tokens_of(issuer), jwt.encode(claims(), own, "RS256", header))


def test_a_token_that_names_no_key_names_no_caller(issuer: Issuer) -> None:
    assert is_refused(tokens_of(issuer), jwt.encode(claims(), issuer.keys["one"], "RS256"))  # type: ignore[arg-type]


def test_a_token_with_an_unsupported_critical_header_names_no_caller(issuer: Issuer) -> None:
    header = {"kid": "one", "crit": ["exp-policy"], "exp-policy": 1}
    assert is_refused(tokens_of(issuer), jwt.encode(claims(), issuer.keys["one"], "RS256", header))  # type: ignore[arg-type]


@pytest.mark.parametrize("usage", [{"use": "enc"}, {"alg": "RS512"}])
def test_a_key_for_another_use_verifies_no_token(issuer: Issuer, usage: dict[str, str]) -> None:
    issuer.answer = 200, json.dumps({"keys": [public_jwk(issuer.keys["one"], kid="one", **usage)]}).encode()
    assert is_refused(tokens_of(issuer), issuer.token("one"))


def test_a_key_that_is_too_short_names_no_caller(issuer: Issuer) -> None:
    issuer.add("short", rsa.generate_private_key(public_exponent=65537, key_size=1024))
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        token = issuer.token("short")
    assert is_refused(tokens_of(issuer), token)


@given(st.text(alphabet=st.sampled_from('ey0.-_AJ=+/{}"1:,algkd'), max_size=60) | st.binary(max_size=60).map(repr))
def test_a_malformed_token_names_no_caller(shared_issuer: Issuer, text: str) -> None:
    assert is_refused(tokens_of(shared_issuer), text)


HEADERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["one", "RS256"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "typ", "jwk"]), inner, max_size=5)
    ),
    max_leaves=8,
)


@given(HEADERS)
def test_an_unsigned_token_names_no_caller_for_any_header(shared_issuer: Issuer, header: Any) -> None:
    assert is_refused(tokens_of(shared_issuer), unsigned(header, b"x"))


# ---- the issuer's keys


def test_keys_are_fetched_once_for_many_tokens(issuer: Issuer, ticks: Ticks) -> None:
    tokens = tokens_of(issuer, ticks)
    for number in range(5):
        tokens.identity(issuer.token("one", sub=f"ann-{number}"))
    assert issuer.fetches == 1


def test_a_new_key_is_accepted_without_a_restart_and_the_old_one_as_long_as_it_is_published(
    issuer: Issuer, ticks: Ticks
) -> None:
    tokens = tokens_of(issuer, ticks)
    old = issuer.token("one")
    tokens.identity(old)
    issuer.add("two")
    ticks.now += FETCHED_EVERY_S
    assert not is_refused(tokens, issuer.token("two"))
    assert not is_refused(tokens, old)
    kept = issuer.keys.pop("one")
    ticks.now += KEPT_S - 1
    assert not is_refused(tokens, old)
    ticks.now += 1
    assert is_refused(tokens, old)
    issuer.keys["one"] = kept


def test_a_flood_of_made_up_key_ids_makes_one_fetch(issuer: Issuer, ticks: Ticks) -> None:
    tokens = tokens_of(issuer, ticks)
    tokens.identity(issuer.token("one"))
    ticks.now += FETCHED_EVERY_S
    issuer.fetches = 0
    made_up = [unsigned({"alg": "RS256", "kid": f"made-up-{number}"}, b"x") for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda token: is_refused(tokens, token), made_up))
    assert issuer.fetches == 1
    ticks.now += FETCHED_EVERY_S - 0.1
    assert is_refused(tokens, made_up[0])
    assert issuer.fetches == 1
    ticks.now += 0.1
    assert is_refused(tokens, made_up[0])
    assert issuer.fetches == 2


def test_threads_that_need_the_keys_at_the_same_time_wait_for_one_fetch(issuer: Issuer, ticks: Ticks) -> None:
    tokens, token = tokens_of(issuer, ticks), issuer.token("one")
    issuer.takes_s = 0.2
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(lambda _: is_refused(tokens, token), range(8)))
    assert issuer.fetches == 1


UNUSABLE: dict[str, tuple[int, bytes]] = {
    "an error": (500, b""),
    "a redirect": (302, b""),
    "no JSON": (200, b"<html>"),
    "nested too deep": (200, b"[" * 100_000),
    "no set": (200, b"[]"),
    "a set of no keys": (200, b'{"keys": {}}'),
    "too much": (200, b" " * (MAX_BYTES + 1) + b'{"keys": []}'),
}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_without_the_issuers_keys_no_token_is_refused_and_the_issuer_is_not_called_again(
    issuer: Issuer, ticks: Ticks, answer: tuple[int, bytes]
) -> None:
    tokens, token = tokens_of(issuer, ticks), issuer.token("one")
    issuer.answer = answer
    for _ in range(3):
        with pytest.raises(IssuerUnavailable):
            tokens.identity(token)
    assert issuer.fetches == 1
    issuer.answer = None
    ticks.now += FETCHED_EVERY_S
    assert not is_refused(tokens, token)


def test_cached_keys_stay_valid_while_the_issuer_is_unavailable(issuer: Issuer, ticks: Ticks) -> None:
    tokens, token = tokens_of(issuer, ticks), issuer.token("one")
    tokens.identity(token)
    issuer.answer = 503, b""
    ticks.now += FETCHED_EVERY_S
    with pytest.raises(IssuerUnavailable):
        tokens.identity(unsigned({"alg": "RS256", "kid": "perhaps new"}, b"x"))
    assert not is_refused(tokens, token)
    ticks.now += KEPT_S
    with pytest.raises(IssuerUnavailable):
        tokens.identity(token)


def test_an_unreachable_issuer_is_distinguished_from_a_refusing_one() -> None:
    tokens = JwtTokens(IssuerKeys("http://127.0.0.1:9/keys"), Expected(ISSUER, AUDIENCE, MAPPED))
    with pytest.raises(IssuerUnavailable):
        tokens.identity(unsigned({"alg": "RS256", "kid": "one"}, b"x"))


def test_the_log_has_the_reason_and_nothing_of_the_token(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = issuer.token("one", exp=1, sub="ann-the-principal")
    assert is_refused(tokens_of(issuer), token)
    assert "ExpiredSignatureError" in caplog.text
    for part in (*token.split("."), "ann-the-principal"):
        assert part not in caplog.text
