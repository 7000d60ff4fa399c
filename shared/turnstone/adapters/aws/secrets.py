"""Read secrets of Secrets Manager and parameters of the Systems Manager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import StoreUnavailable


def secret_text(client: Any, secret_id: str) -> str:
    """Return a secret's text without surrounding white space. Raises StoreUnavailable."""
    with _failures_converted(f"the secret {secret_id!r}"):
        answer = client.get_secret_value(SecretId=secret_id)
    text: str | None = answer.get("SecretString")
    if text is None:
        raise StoreUnavailable(f"the secret {secret_id!r} can't be used: it holds no text")
    return text.strip()


def parameter_text(client: Any, name: str) -> str:
    """Return a parameter's text. Raises StoreUnavailable."""
    with _failures_converted(f"the parameter {name!r}"):
        text: str = client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
    return text


@contextmanager
def _failures_converted(what: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise StoreUnavailable(f"{what} can't be read: {code}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"{what} can't be read: {error}") from error
