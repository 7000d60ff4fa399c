"""Which clients this server can speak to.

Source: the Llama Stack clients send their version with every request; the contract accepts 0.1 to 0.3.
"""

from collections.abc import Mapping

HEADER = "x-llamastack-client-version"
KNOWN = {("0", "1"), ("0", "2"), ("0", "3")}


def is_llama_stack_client(headers: Mapping[str, str]) -> bool:
    """Tell whether an official client of Llama Stack sent the request."""
    return HEADER in headers


def unknown_client(headers: Mapping[str, str]) -> str | None:
    """Return the version of a client whose API this server does not speak, None if it speaks it or none is told."""
    version = headers.get(HEADER)
    return version if version and tuple(version.strip().split(".")[:2]) not in KNOWN else None
