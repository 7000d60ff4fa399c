"""What a server offers to agents by name: models, toolgroups and shields.

Source: the types of `llama-stack-client` 0.2.12.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.domain.values.frozen import Frozen, JsonObject

BUILTIN = "builtin"
MCP = "model-context-protocol"
LLAMA_GUARD = "llama-guard"
BEDROCK = "bedrock"
PATTERN = "pattern"
# Source: the run configurations of Llama Stack, whose set-up scripts register these groups with these providers
PROVIDERS_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "builtin::websearch": ("brave-search", "tavily-search", "bing-search"),
    "builtin::wolfram_alpha": ("wolfram-alpha",),
    "builtin::rag": ("rag-runtime",),
    "builtin::code_interpreter": ("code-interpreter",),
}


def refuse_unaddressable(identifier: str) -> str:
    """Return the identifier. Raises ValueError if it could not be read, or not be asked for as the end of a path."""
    if not identifier.isprintable() or " " in identifier:
        raise ValueError("an identifier must not contain spaces or invisible characters")
    if {"", ".", ".."} & set(identifier.split("/")):
        raise ValueError("an identifier must not have empty parts, or parts of dots alone, around its slashes")
    return identifier


Identifier = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(refuse_unaddressable)]


class Registered(Frozen):
    """What all kinds have: the name agents use, and the name its provider knows."""

    identifier: str
    provider_resource_id: str

    def agrees_with(self, there: "Registered", given: Collection[str]) -> bool:
        """Tell whether registering this, where only these fields were given, says of the other one what is so.

        Of metadata, what is given has to be so; an empty object says as much as none.
        """
        for name in given:
            own, other = getattr(self, name), getattr(there, name)
            if name == "metadata":
                if not own.items() <= other.items():
                    return False
            elif own != other and (own or other):
                return False
        return True


class Model(Registered):
    provider_id: str = DEFAULT_PROVIDER
    type: Literal["model"] = "model"
    model_type: Literal["llm", "embedding"] = "llm"
    metadata: JsonObject = {}


class McpEndpoint(Frozen):
    # two characters that are white space to some readers of patterns and not to others are named
    uri: Annotated[str, Field(pattern=r"^https?://[^/\s\x85\uFEFF]+[^\s\x85\uFEFF]*$")]


class Toolgroup(Registered):
    provider_id: str
    type: Literal["tool_group"] = "tool_group"
    mcp_endpoint: McpEndpoint | None = None
    args: JsonObject | None = None


class Shield(Registered):
    provider_id: str = LLAMA_GUARD
    type: Literal["shield"] = "shield"
    params: JsonObject | None = None
