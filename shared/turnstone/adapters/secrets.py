"""Secrets by their names."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import StoreUnavailable


def secret_text(client: Any, secret_id: str) -> str:
    """Return the text of a secret in Secrets Manager, white space around it left out. Raises StoreUnavailable."""
    try:
        answer = client.get_secret_value(SecretId=secret_id)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise StoreUnavailable(f"the secret {secret_id!r} can't be read: {code}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"the secret {secret_id!r} can't be read: {error}") from error
    text: str | None = answer.get("SecretString")
    if text is None:
        raise StoreUnavailable(f"the secret {secret_id!r} can't be used: it holds no text")
    return text.strip()
