"""API keys: create and show once, list, revoke, authenticate."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from turnstone.domain.access.api_keys import TOKEN_BYTES, ApiKey, hash_of, is_token, refuse_unusable, token_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.access.identity import Identity
from turnstone.domain.errors import Unauthenticated
from turnstone.ports.system import Clock, IdGenerator
from turnstone.store.access.api_keys import ApiKeyStore


class ApiKeys:
    def __init__(self, keys: ApiKeyStore, clock: Clock, ids: IdGenerator, random_bytes: Callable[[int], bytes]) -> None:
        self._keys = keys
        self._clock = clock
        self._ids = ids
        self._random_bytes = random_bytes

    def create(self, caller: Caller, name: str, valid_for: timedelta | None = None) -> tuple[ApiKey, str]:
        """Store a new key of this caller; return it and its token, of which only a hash is stored.

        Raises InvalidRequest.
        """
        now = self._clock.now()
        expires_at = None if valid_for is None else now + valid_for
        key = ApiKey(
            key_id=self._ids.order_key(now, None), name=name, caller=caller, created_at=now, expires_at=expires_at
        )
        refuse_unusable(key)
        token = token_of(self._random_bytes(TOKEN_BYTES))
        self._keys.create(key, hash_of(token))
        return key, token

    def list(self, tenant: str) -> Iterator[ApiKey]:
        """Yield the keys of a tenant, the oldest first."""
        return self._keys.list(tenant)

    def revoke(self, tenant: str, key_id: str) -> ApiKey:
        """Revoke a key; requests with it are refused from now on. Raises NotFound."""
        return self._keys.revoke(tenant, key_id, self._clock.now())

    def identity(self, token: str) -> Identity:
        """Return the identity of the key. Raises Unauthenticated."""
        key = self._keys.find(hash_of(token)) if is_token(token) else None
        if key is None or not key.is_good(self._clock.now()):
            raise Unauthenticated
        return Identity(key.caller.model_copy(update={"key_id": key.key_id}), key.expires_at)
