"""Secrets of webhooks, and the headers that prove the sender of a request to one.

Source: the Standard Webhooks specification, version 1.0.0.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from hmac import digest

SECRET_BYTES = 32
PREFIX = "whsec_"


def secret_of(random: bytes) -> str:
    """Return the secret of SECRET_BYTES random bytes."""
    return PREFIX + b64encode(random).decode()


def signed_headers(event_id: str, body: bytes, secrets: Sequence[str], at: datetime) -> dict[str, str]:
    """Return the headers of a request that is sent at that time, with a signature by each of the secrets."""
    timestamp = str(int(at.timestamp()))
    content = b".".join((event_id.encode(), timestamp.encode(), body))
    signatures = (f"v1,{b64encode(digest(_key_of(secret), content, sha256)).decode()}" for secret in secrets)
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }


def _key_of(secret: str) -> bytes:
    return b64decode(secret.removeprefix(PREFIX))
