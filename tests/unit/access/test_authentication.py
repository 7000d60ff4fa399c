"""The caller of an authorization header: one bearer token names it, and a revoked token only until the cache expires.

Covers: services/access/authentication
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.access.caller import Caller
from turnstone.domain.access.identity import Identity
from turnstone.domain.errors import StoreUnavailable, Unauthenticated
from turnstone.services.access.authentication import MOST_CACHED, Authenticator

ANN = Caller(tenant="acme", principal="ann")
CACHED_FOR = timedelta(seconds=10)


class MovedClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.set_back_s = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic_s(self) -> float:
        return self.time.timestamp() + self.set_back_s


class CountedTokens:
    """Tokens in a dict; counts the lookups."""

    def __init__(self, **identities: Identity) -> None:
        self.identities = identities
        self.lookups = 0
        self.is_away = False

    def identity(self, token: str) -> Identity:
        self.lookups += 1
        if self.is_away:
            raise StoreUnavailable("away")
        if token not in self.identities:
            raise Unauthenticated
        return self.identities[token]


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def tokens() -> CountedTokens:
    return CountedTokens(good=Identity(ANN))


@pytest.fixture
def authenticator(tokens: CountedTokens, clock: MovedClock) -> Authenticator:
    return Authenticator(tokens, clock, CACHED_FOR)


@pytest.mark.parametrize("header", ["Bearer good", "bearer good", "BEARER   good", " Bearer good\t"])
def test_a_bearer_token_names_its_caller(authenticator: Authenticator, header: str) -> None:
    assert authenticator.identify(header) == ANN


MALFORMED = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "good",
    "Bearergood",
    "Basic good",
    "Bearer good good",
    "Bearer good, Bearer good",
    "Bearer good\nx",
    "Bearer\tgood",
    "Bearer gööd",
    "Bearer =",
    "Bearer " + "x" * 20_000,
    "AWS4-HMAC-SHA256 Credential=AKIA/20261121/eu-central-1/execute-api/aws4_request, Signature=00",
]


@pytest.mark.parametrize("header", MALFORMED)
def test_any_other_header_names_no_caller_and_causes_no_lookup(
    authenticator: Authenticator, tokens: CountedTokens, header: str | None
) -> None:
    for authenticate in (authenticator.cached_caller, authenticator.identify):
        with pytest.raises(Unauthenticated) as refused:
            authenticate(header)
        assert refused.value.scheme == "Bearer"
    assert tokens.lookups == 0


@given(st.none() | st.text() | st.text().map("Bearer {}".format))
def test_any_header_is_refused_or_names_a_caller(header: str | None) -> None:
    authenticator = Authenticator(CountedTokens(), MovedClock(), CACHED_FOR)
    with pytest.raises(Unauthenticated) as refused:
        authenticator.identify(header)
    assert refused.value.scheme == "Bearer"


def test_a_caller_is_cached_for_a_moment_without_another_lookup(
    authenticator: Authenticator, tokens: CountedTokens, clock: MovedClock
) -> None:
    assert authenticator.cached_caller("Bearer good") is None
    assert authenticator.identify("Bearer good") == ANN
    clock.time += CACHED_FOR - timedelta(milliseconds=1)
    assert authenticator.cached_caller("Bearer good") == authenticator.identify("bearer good") == ANN
    assert tokens.lookups == 1


def test_a_revoked_token_names_no_caller_once_the_cache_expires(
    authenticator: Authenticator, tokens: CountedTokens, clock: MovedClock
) -> None:
    authenticator.identify("Bearer good")
    tokens.identities = {}
    clock.time += CACHED_FOR
    assert authenticator.cached_caller("Bearer good") is None
    with pytest.raises(Unauthenticated):
        authenticator.identify("Bearer good")


def test_a_token_is_not_cached_beyond_its_expiry(
    authenticator: Authenticator, tokens: CountedTokens, clock: MovedClock
) -> None:
    tokens.identities = {"short": Identity(ANN, clock.time + timedelta(seconds=2))}
    authenticator.identify("Bearer short")
    clock.time += timedelta(seconds=1)
    assert authenticator.cached_caller("Bearer short") == ANN
    clock.time += timedelta(seconds=1)
    assert authenticator.cached_caller("Bearer short") is None


def test_a_token_is_verified_in_time_though_the_clock_was_set_back(
    authenticator: Authenticator, tokens: CountedTokens, clock: MovedClock
) -> None:
    authenticator.identify("Bearer good")
    tokens.identities.clear()
    clock.time -= timedelta(hours=1)
    clock.set_back_s = 3_600
    assert authenticator.cached_caller("Bearer good") == ANN
    clock.time += CACHED_FOR
    with pytest.raises(Unauthenticated):
        authenticator.identify("Bearer good")


def test_a_token_is_verified_in_time_though_its_process_was_frozen(
    authenticator: Authenticator, tokens: CountedTokens, clock: MovedClock
) -> None:
    authenticator.identify("Bearer good")
    clock.time += CACHED_FOR
    clock.set_back_s = -CACHED_FOR.total_seconds()
    assert authenticator.cached_caller("Bearer good") is None


def test_without_a_cache_every_request_causes_a_lookup(tokens: CountedTokens, clock: MovedClock) -> None:
    authenticator = Authenticator(tokens, clock, timedelta(0))
    for _ in range(3):
        assert authenticator.identify("Bearer good") == ANN
    assert tokens.lookups == 3


def test_a_refused_token_is_not_cached(authenticator: Authenticator, tokens: CountedTokens) -> None:
    with pytest.raises(Unauthenticated):
        authenticator.identify("Bearer new")
    tokens.identities["new"] = Identity(ANN)
    assert authenticator.identify("Bearer new") == ANN


def test_a_store_that_is_away_is_no_refusal(
    authenticator: Authenticator, tokens: CountedTokens, clock: MovedClock
) -> None:
    authenticator.identify("Bearer good")
    tokens.is_away = True
    assert authenticator.identify("Bearer good") == ANN
    clock.time += CACHED_FOR
    with pytest.raises(StoreUnavailable):
        authenticator.identify("Bearer good")


def test_only_so_many_callers_are_remembered_the_latest_ones(tokens: CountedTokens, clock: MovedClock) -> None:
    tokens.identities = {f"t{number}": Identity(ANN) for number in range(MOST_CACHED + 5)}
    authenticator = Authenticator(tokens, clock, CACHED_FOR)
    for token in tokens.identities:
        authenticator.identify(f"Bearer {token}")
    cached = [token for token in tokens.identities if authenticator.cached_caller(f"Bearer {token}")]
    assert cached == [f"t{number}" for number in range(5, MOST_CACHED + 5)]


def test_tokens_themselves_are_not_kept(authenticator: Authenticator) -> None:
    authenticator.identify("Bearer good")
    assert "good" not in repr(vars(authenticator)["_cached"])
