"""How a model server knows who asks: by our key, by one that a caller hands on, or by a signature."""

from collections.abc import Callable, Mapping

from turnstone.domain.errors import ModelFailed
from turnstone.domain.provider_data import ProviderData, is_sendable

Sign = Callable[[str, str, Mapping[str, str], bytes | None], Mapping[str, str]]


class ModelAccess:
    """The headers that prove it, request by request."""

    def __init__(self, api_key: str | None = None, caller_key: str | None = None, sign: Sign | None = None) -> None:
        """Take what there is to prove it with.

        Args:
            caller_key: what a caller's own key is called among what it hands on; it takes the place of ours.
            sign: makes the headers of a request from its method, URL, headers and body.

        Raises:
            ValueError: the key can't be sent in a header.
        """
        self._api_key = (api_key or "").strip()
        if not is_sendable(self._api_key):
            named = "TURNSTONE_MODEL_API_KEY, or what its provider names"
            raise ValueError(f"the model's API key ({named}) has characters that are not valid in an HTTP header")
        self._caller_key = caller_key
        self._sign = sign

    @property
    def is_signed(self) -> bool:
        """Whether a signature takes the place of a key, as at Bedrock."""
        return self._sign is not None

    def key(self, handed_on: ProviderData) -> str:
        """Return the key to ask with, empty if there is none. Raises ModelFailed for one that can't be sent."""
        own = handed_on.key(self._caller_key) if self._caller_key else None
        if own is None:
            return self._api_key
        if not is_sendable(own.strip()):
            raise ModelFailed(
                f"the key {self._caller_key!r} of the provider data has characters that are not valid in an HTTP header"
            )
        return own.strip()

    def headers(self, key: str, method: str, url: str, body: bytes | None) -> Mapping[str, str]:
        """Return the headers of a request that is asked with this key."""
        headers = {
            "Accept": "text/event-stream, application/json",
            "Content-Type": "application/json",
            "User-Agent": "turnstone",
        }
        if self._sign is not None:
            return {**headers, **self._sign(method, url, headers, body)}
        return {**headers, "Authorization": f"Bearer {key}"} if key else headers
