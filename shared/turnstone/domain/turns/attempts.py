"""One request that creates something: what tells that it comes again, and what is handed on with it alone."""

from pydantic import ConfigDict, Field

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.values.frozen import Frozen


class Attempt(Frozen):
    """How a request can be recognised when it comes again.

    Attributes:
        fingerprint: hash of principal, path and body.
        is_retry: the client says it sent this before (`x-stainless-retry-count` above 0).
        key: hash of principal, path and `Idempotency-Key`; None if no key was sent.
        repeated_within_s: how long ago the first of its kind may have been answered.
        provider_data: keys of the caller for providers, which are no part of what is recognised.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    fingerprint: str
    is_retry: bool = False
    key: str | None = None
    repeated_within_s: float = 90
    provider_data: ProviderData = Field(default=NO_PROVIDER_DATA, exclude=True, repr=False)
