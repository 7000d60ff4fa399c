"""Errors of providers of memory banks; the tree is in the package's docstring."""

from turnstone.domain.errors.root import TurnstoneError


class MemoryProviderError(TurnstoneError):
    """A provider of memory banks failed a call. The message names no address and no credential.

    Attributes:
        provider_id: its name in the operator's file.
        is_outage: whether the provider fails for every request.
    """

    def __init__(self, provider_id: str, why: str, *, is_outage: bool = False) -> None:
        super().__init__(f"memory provider {provider_id!r}: {why}")
        self.provider_id = provider_id
        self.is_outage = is_outage


class MemoryProviderFailed(MemoryProviderError):
    """The provider can't be reached, refuses the server's credentials, or failed."""


class MemoryProviderMissing(MemoryProviderError):
    """The operator's file has no such provider any more, or the server lacks its package."""


class MemoryProviderTimedOut(MemoryProviderError):
    """The provider did not answer in time: an outage if no caller gets an answer, none if one call is slow."""
