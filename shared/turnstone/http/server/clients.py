"""Which clients this server can speak to.

Source: the Llama Stack clients of Python send their version with every request, of which the contract accepts 0.1 to
0.3; that of TypeScript gives itself away by `User-Agent: LlamaStackClient/JS …` alone.
"""

from collections.abc import Mapping

HEADER = "x-llamastack-client-version"
USER_AGENT = "LlamaStackClient/"
KNOWN = {("0", "1"), ("0", "2"), ("0", "3")}


def is_llama_stack_client(headers: Mapping[str, str]) -> bool:
    """Tell whether an official client of Llama Stack sent the request."""
    return HEADER in headers or headers.get("user-agent", "").startswith(USER_AGENT)


def unknown_client(headers: Mapping[str, str]) -> str | None:
    """Return the version of a client whose API this server does not speak, None if it speaks it or none is told."""
    version = headers.get(HEADER)
    return version if version and tuple(version.strip().split(".")[:2]) not in KNOWN else None
