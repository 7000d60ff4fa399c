"""Provider data: a caller's own keys for providers, for one request. Never stored, never logged."""

import json
from collections.abc import Mapping
from typing import Any

from turnstone.domain.errors import InvalidRequest

HEADERS = ("x-llamastack-provider-data", "x-llamastack-providerdata")
KEYS_END_IN = "_api_key"
MCP_HEADERS = "mcp_headers"


class ProviderData:
    """The caller's keys by name. Neither `repr` nor any serializer reveals them."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def key(self, name: str) -> str | None:
        """Return the text of that name, None without one."""
        value = self._values.get(name)
        return value if isinstance(value, str) and value else None

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return the object of that name, empty without one."""
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}

    def with_headers(self, uri: str, headers: Mapping[str, str]) -> "ProviderData":
        """Return the data with these headers, and no others, for the MCP server at the address."""
        return ProviderData({**self._values, MCP_HEADERS: {uri: dict(headers)}})

    def __repr__(self) -> str:
        return "<provider data>"

    def __reduce__(self) -> str:
        raise TypeError("provider data is not written anywhere")


NO_PROVIDER_DATA = ProviderData({})


def provider_data_in(headers: Mapping[str, str]) -> ProviderData:
    """Return the header's data. The older header name applies if the newer is not sent.

    Source: the Llama Stack contract; the value is a JSON object.

    Raises:
        InvalidRequest: not such an object, or a key that no header can carry. No value is repeated.
    """
    name = next((name for name in HEADERS if name in headers), None)
    if name is None:
        return NO_PROVIDER_DATA
    try:
        values = json.loads(headers[name])
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InvalidRequest(f"{name}: must be a JSON object of provider keys", (name,))
    if not isinstance(values.get(MCP_HEADERS) or {}, dict):
        message = f"{name}: {MCP_HEADERS!r} must be an object of headers by MCP server URL"
        raise InvalidRequest(message, (name, MCP_HEADERS))
    for key_name, key in values.items():
        if key_name.endswith(KEYS_END_IN) and not (key is None or (isinstance(key, str) and is_sendable(key.strip()))):
            message = f"{name}: {key_name!r} must be a string that is valid in an HTTP header"
            raise InvalidRequest(message, (name, key_name))
    return ProviderData(values)


def is_sendable(key: str) -> bool:
    """Return whether a header can carry the key."""
    return key.isascii() and key.isprintable()
