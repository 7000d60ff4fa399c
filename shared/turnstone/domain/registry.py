"""What a server offers to agents by name: models, toolgroups and shields, and who provides them.

Source: the types of `llama-stack-client` 0.2.12.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from turnstone.domain.model import Frozen, JsonObject
from turnstone.domain.routing import MODELS

BUILTIN = "builtin"
MCP = "model-context-protocol"
LLAMA_GUARD = "llama-guard"
BEDROCK = "bedrock"
PATTERN = "pattern"
PROVIDER_TYPES = {
    "bedrock": "remote::bedrock",
    "offline": "inline::offline",
    "openai": "remote::openai-compatible",
}


def refuse_unaddressable(identifier: str) -> str:
    """Return the identifier. Raises ValueError if it could not be read, or not be asked for as the end of a path."""
    if not identifier.isprintable() or " " in identifier:
        raise ValueError("an identifier has no spaces and no characters that can't be seen")
    if {"", ".", ".."} & set(identifier.split("/")):
        raise ValueError("an identifier has neither empty parts nor dots alone around its slashes")
    return identifier


Identifier = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(refuse_unaddressable)]


class Registered(Frozen):
    """What all kinds have: the name agents use, and the name its provider knows."""

    identifier: str
    provider_resource_id: str


class Model(Registered):
    provider_id: str = MODELS
    type: Literal["model"] = "model"
    model_type: Literal["llm", "embedding"] = "llm"
    metadata: JsonObject = {}


class McpEndpoint(Frozen):
    uri: Annotated[str, Field(pattern=r"^https?://[^/\s]+\S*$")]


class Toolgroup(Registered):
    provider_id: str
    type: Literal["tool_group"] = "tool_group"
    mcp_endpoint: McpEndpoint | None = None
    args: JsonObject | None = None


class Shield(Registered):
    provider_id: str = LLAMA_GUARD
    type: Literal["shield"] = "shield"
    params: JsonObject | None = None


class Health(Frozen):
    """How a provider is; nobody is asked for it, so it says only what this server knows of itself."""

    status: Literal["OK", "Not Implemented"]
    message: str | None = None


class Provider(Frozen):
    api: str
    provider_id: str
    provider_type: str
    config: dict[str, Any] = {}
    health: Health


def providers(of_models: Mapping[str, str]) -> tuple[Provider, ...]:
    """Return who provides what; those of models are told by their names, each with its kind."""
    unchecked = Health(status="Not Implemented", message="the model server is asked when it is needed, not for this")
    return (
        *(
            Provider(
                api="inference",
                provider_id=provider_id,
                provider_type=PROVIDER_TYPES[kind],
                health=Health(status="OK") if kind == "offline" else unchecked,
            )
            for provider_id, kind in of_models.items()
        ),
        Provider(api="agents", provider_id="turnstone", provider_type="inline::turnstone", health=Health(status="OK")),
        Provider(api="tool_runtime", provider_id=BUILTIN, provider_type="inline::builtin", health=Health(status="OK")),
        Provider(
            api="tool_runtime",
            provider_id=MCP,
            provider_type=f"remote::{MCP}",
            health=Health(status="Not Implemented", message="MCP servers are asked when they are needed, not for this"),
        ),
        *_of_shields(can_ask_a_model=set(of_models.values()) != {"offline"}),
    )


def _of_shields(*, can_ask_a_model: bool) -> tuple[Provider, ...]:
    unasked = "{} asked when a shield needs it, not for this"
    no_judge = "needs a model that can judge, which the offline one can't: its shields fail"
    of_model = unasked.format("the model that judges is") if can_ask_a_model else no_judge
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
