"""Authentication at a model server: by our key, a caller's key, or a signature."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from turnstone.domain.errors import ModelFailed
from turnstone.domain.provider_data import ProviderData, is_sendable

Sign = Callable[[str, str, Mapping[str, str], bytes | None], Mapping[str, str]]


class SettingNames(NamedTuple):
    """Names of the operator's settings for a model server's address and key."""

    url: str
    key: str


OF_VARIABLES = SettingNames("TURNSTONE_MODEL_URL", "TURNSTONE_MODEL_API_KEY")


class ModelAccess:
    """Authentication headers, computed per request.

    Attributes:
        names: the operator's settings, for errors.
    """

    def __init__(
        self,
        api_key: str | None = None,
        caller_key: str | None = None,
        sign: Sign | None = None,
        names: SettingNames = OF_VARIABLES,
    ) -> None:
        """Take the credentials.

        Args:
            caller_key: the field of a caller's own key in the provider data; it replaces ours.
            sign: computes the headers of a request from its method, URL, headers and body.

        Raises:
            ValueError: the key is not valid in a header.
        """
        self._api_key = (api_key or "").strip()
        if not is_sendable(self._api_key):
            raise ValueError(f"the model's API key ({names.key}) has characters that are not valid in an HTTP header")
        self.names = names
        self._caller_key = caller_key
        self._sign = sign

    @property
    def is_signed(self) -> bool:
        """Whether a signature replaces the key, as at Bedrock."""
        return self._sign is not None

    def key_name(self, key: str) -> str:
        """Return the source of a request's key: the operator's setting, or the caller's own data."""
        is_ours = self._caller_key is None or key == self._api_key
        return self.names.key if is_ours else f"{self._caller_key!r} of the provider data"

    def key(self, passed_on: ProviderData) -> str:
        """Return the key, empty without one. Raises ModelFailed if it is not valid in a header."""
        own = passed_on.key(self._caller_key) if self._caller_key else None
        if own is None:
            return self._api_key
        if not is_sendable(own.strip()):
            raise ModelFailed(
                f"the key {self._caller_key!r} of the provider data has characters that are not valid in an HTTP header"
            )
        return own.strip()

    def headers(self, key: str, method: str, url: str, body: bytes | None) -> Mapping[str, str]:
        """Return the headers of a request with this key."""
        headers = {
            "Accept": "text/event-stream, application/json",
            "Content-Type": "application/json",
            "User-Agent": "turnstone",
        }
        if self._sign is not None:
            return {**headers, **self._sign(method, url, headers, body)}
        return {**headers, "Authorization": f"Bearer {key}"} if key else headers
