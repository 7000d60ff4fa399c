"""One request that creates something, as seen by the rules that keep its repetition harmless."""

from turnstone.domain.model import Frozen


class Attempt(Frozen):
    """How a request can be recognised when it comes again.

    Attributes:
        fingerprint: hash of principal, path and body.
        is_retry: the client says it sent this before (`x-stainless-retry-count` above 0).
        key: hash of principal, path and `Idempotency-Key`; None if no key was sent.
        repeated_within_s: how long ago the first of its kind may have been answered.
    """

    fingerprint: str
    is_retry: bool = False
    key: str | None = None
    repeated_within_s: float = 90
