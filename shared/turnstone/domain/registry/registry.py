"""Registry entries that agents refer to by name: models, toolgroups and shields.

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
    """Return the identifier. Raises ValueError if it is unreadable, or unusable as the end of a path."""
    if not identifier.isprintable() or " " in identifier:
        raise ValueError("an identifier must not contain spaces or invisible characters")
    if {"", ".", ".."} & set(identifier.split("/")):
        raise ValueError("an identifier must not have empty parts, or parts of dots alone, around its slashes")
    return identifier


Identifier = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(refuse_unaddressable)]


class Registered(Frozen):
    """Common fields of all kinds: the agents' name, and the provider's."""

    identifier: str
    provider_resource_id: str

    def agrees_with(self, there: "Registered", given: Collection[str]) -> bool:
        """Return whether registering this, with only these fields given, agrees with the other one.

        Given metadata must be equal; an empty object counts as none.
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
    # the two characters that only some regular expression engines treat as white space are named
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
