"""One attempt of a creating request: its identity for retries, and its provider data."""

from pydantic import ConfigDict, Field

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.values.frozen import Frozen


class Attempt(Frozen):
    """The identity of a request across retries.

    Attributes:
        fingerprint: hash of principal, path and body.
        is_retry: whether the client declares a retry (`x-stainless-retry-count` above 0).
        key: hash of principal, path and `Idempotency-Key`; None without one.
        repeated_within_s: the maximum time since the answer to the first attempt.
        provider_data: keys of the caller for providers, excluded from the identity.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    fingerprint: str
    is_retry: bool = False
    key: str | None = None
    repeated_within_s: float = 90
    provider_data: ProviderData = Field(default=NO_PROVIDER_DATA, exclude=True, repr=False)
