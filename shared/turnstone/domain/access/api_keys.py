"""API keys: random tokens that are shown once, and stored only as a hash.

The hash is a plain SHA-256: a token of 256 random bits cannot be guessed, so a slow hash would add nothing. A key is
looked up by its hash. The timing of the lookup reveals at most the first bits of a hash, which the sender can compute
but not choose, and from which no token can be derived; so no comparison in constant time is needed.
"""

import re
from base64 import urlsafe_b64encode
from datetime import datetime
from hashlib import sha256

from turnstone.domain.access.caller import Caller
from turnstone.domain.access.identity import MAX_TENANT_BYTES, caller_named
from turnstone.domain.errors import InvalidRequest, Unauthenticated, UnusableTenant
from turnstone.domain.values.frozen import Frozen

TOKEN_BYTES = 32
MAX_NAMED_BYTES = 4_000  # API Gateway limits the context of an authorizer
_TOKEN = re.compile(r"ts_[A-Za-z0-9_-]{43}")


class ApiKey(Frozen):
    """A stored API key: everything except the key itself."""

    key_id: str
    name: str
    caller: Caller
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_good(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def token_of(random: bytes) -> str:
    """Return the token of TOKEN_BYTES random bytes."""
    return "ts_" + urlsafe_b64encode(random).decode().rstrip("=")


def is_token(text: str) -> bool:
    """Return whether the text has the form of a token of ours."""
    return _TOKEN.fullmatch(text) is not None


def hash_of(token: str) -> str:
    """Return the hash under which a token is stored."""
    return sha256(token.encode()).hexdigest()


def refuse_unusable(key: ApiKey) -> None:
    """Raise InvalidRequest if the key's names could not identify a caller."""
    try:
        caller_named(key.caller.model_dump())
    except UnusableTenant:
        reason = f"a tenant's name may have at most {MAX_TENANT_BYTES} bytes, where each of % | : # counts as three"
        raise InvalidRequest(reason) from None
    except Unauthenticated:
        raise InvalidRequest("a key must name a tenant and a principal, in valid UTF-8") from None
    if not key.name or not key.name.isprintable():
        raise InvalidRequest("a key must have a name of printable characters")
    if len(key.caller.model_dump_json().encode()) > MAX_NAMED_BYTES:
        raise InvalidRequest(
            f"tenant, principal, roles, teams and projects of a key may have at most {MAX_NAMED_BYTES} bytes together"
        )
    if key.expires_at is not None and key.expires_at <= key.created_at:
        raise InvalidRequest("a key must expire after it is created")
