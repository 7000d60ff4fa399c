"""Detection of the official clients, and of versions with an API that this server does not speak.

Source: the Llama Stack clients of Python send their version with every request, and the contract accepts 0.1 to 0.3;
that of TypeScript sends only `User-Agent: LlamaStackClient/JS …`.
"""

from collections.abc import Mapping

HEADER = "x-llamastack-client-version"
USER_AGENT = "LlamaStackClient/"
SUPPORTED = {("0", "1"), ("0", "2"), ("0", "3")}


def is_llama_stack_client(headers: Mapping[str, str]) -> bool:
    """Return whether an official client of Llama Stack sent the request."""
    return HEADER in headers or headers.get("user-agent", "").startswith(USER_AGENT)


def unknown_client(headers: Mapping[str, str]) -> str | None:
    """Return the version of an unsupported client, None for a supported one or a request without a version."""
    version = headers.get(HEADER)
    return version if version and tuple(version.strip().split(".")[:2]) not in SUPPORTED else None
