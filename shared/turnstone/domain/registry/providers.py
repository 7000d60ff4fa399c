"""Providers of a server's models, memory banks, toolgroups and shields.

Source: the types of `llama-stack-client` 0.2.12.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from turnstone.domain.memory.banks import EMBEDDED_PROVIDER
from turnstone.domain.models.local_embeddings import LOCAL, LOCAL_EMBEDDINGS
from turnstone.domain.registry.registry import BEDROCK, BUILTIN, LLAMA_GUARD, MCP, PATTERN
from turnstone.domain.values.frozen import Frozen

PROVIDER_TYPES = {
    "bedrock": "remote::bedrock",
    "offline": "inline::offline",
    "openai": "remote::openai-compatible",
    LOCAL: f"inline::{LOCAL_EMBEDDINGS}",
}
MEMORY_TYPES = {
    "embedded": f"inline::{EMBEDDED_PROVIDER}",
    "pgvector": "remote::pgvector",
    "s3-vectors": "remote::s3-vectors",
}


class Health(Frozen):
    """State of a provider, from this server's own observation, without a request to the provider."""

    status: Literal["OK", "Error", "Not Implemented"]
    message: str | None = None


class Provider(Frozen):
    api: str
    provider_id: str
    provider_type: str
    config: dict[str, Any] = {}
    health: Health


def providers(
    of_models: Mapping[str, str], of_memory: Mapping[str, str], missing_vectors: str = ""
) -> tuple[Provider, ...]:
    """Return all providers.

    Args:
        of_models: the types of the model providers by name.
        of_memory: the types of the providers of memory banks in the operator's file, by name.
        missing_vectors: the problem of this server's own embedding model, empty if it has none.
    """
    own = Health(status="Error", message=missing_vectors) if missing_vectors else Health(status="OK")
    health = {"offline": Health(status="OK"), LOCAL: own}
    unchecked = Health(status="Not Implemented", message="the model server is called when it is needed, not for this")
    return (
        *(
            Provider(
                api="inference",
                provider_id=provider_id,
                provider_type=PROVIDER_TYPES[kind],
                health=health.get(kind, unchecked),
            )
            for provider_id, kind in of_models.items()
        ),
        Provider(api="agents", provider_id="turnstone", provider_type="inline::turnstone", health=Health(status="OK")),
        *_of_memory({EMBEDDED_PROVIDER: "embedded", **of_memory}),
        Provider(api="tool_runtime", provider_id=BUILTIN, provider_type="inline::builtin", health=Health(status="OK")),
        Provider(
            api="tool_runtime",
            provider_id=MCP,
            provider_type=f"remote::{MCP}",
            health=Health(
                status="Not Implemented", message="MCP servers are called when they are needed, not for this"
            ),
        ),
        *_of_shields(has_model=not set(of_models.values()) <= {"offline", LOCAL}),
    )


def _of_memory(types: Mapping[str, str]) -> Iterator[Provider]:
    unchecked = Health(status="Not Implemented", message="the store is called when it is needed, not for this")
    for provider_id, kind in types.items():
        health = Health(status="OK") if kind == "embedded" else unchecked
        yield Provider(api="vector_io", provider_id=provider_id, provider_type=MEMORY_TYPES[kind], health=health)


def _of_shields(*, has_model: bool) -> tuple[Provider, ...]:
    unasked = "{} called when a shield needs it, not for this"
    no_judge = "needs a model that can judge, which the offline one can't: its shields fail"
    of_model = unasked.format("the model that judges is") if has_model else no_judge
    return (
        Provider(api="safety", provider_id=PATTERN, provider_type=f"inline::{PATTERN}", health=Health(status="OK")),
        Provider(
            api="safety",
            provider_id=LLAMA_GUARD,
            provider_type=f"inline::{LLAMA_GUARD}",
            health=Health(status="Not Implemented", message=of_model),
        ),
        Provider(
            api="safety",
            provider_id=BEDROCK,
            provider_type=f"remote::{BEDROCK}",
            health=Health(status="Not Implemented", message=unasked.format("Bedrock is")),
        ),
    )
