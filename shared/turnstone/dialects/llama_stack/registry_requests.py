"""Request bodies of the Llama Stack API that register something, and what of them this server can't keep its word on.

Source: the types of `llama-stack-client` 0.2.12; unknown fields are ignored, nulls mean the default.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.model import JsonObject, NullMeansDefault
from turnstone.domain.registry import (
    BUILTIN,
    LLAMA_GUARD,
    MCP,
    Identifier,
    McpEndpoint,
    Model,
    Shield,
    Toolgroup,
)
from turnstone.domain.routing import MODELS

Resource = Annotated[str, Field(min_length=1, max_length=2_048)]


class RegisterModel(NullMeansDefault):
    model_id: Identifier
    provider_model_id: Resource | None = None
    provider_id: str = MODELS
    metadata: JsonObject = {}
    model_type: Literal["llm", "embedding"] = "llm"

    def to_model(self) -> Model:
        return Model(
            identifier=self.model_id,
            provider_resource_id=self.provider_model_id or self.model_id,
            provider_id=self.provider_id,
            model_type=self.model_type,
            metadata=self.metadata,
        )


class RegisterToolgroup(NullMeansDefault):
    toolgroup_id: Identifier
    provider_id: str
    mcp_endpoint: McpEndpoint | None = None
    args: JsonObject | None = None

    def to_toolgroup(self) -> Toolgroup:
        """Return the toolgroup. Raises Unsupported or InvalidRequest, naming the field that is wrong."""
        refuse_unknown_provider(self.provider_id, BUILTIN, MCP)
        if "/" in self.toolgroup_id:
            raise InvalidRequest("toolgroup_id: what follows a slash is the name of a tool", ("toolgroup_id",))
        if self.provider_id == MCP and self.mcp_endpoint is None:
            raise InvalidRequest(f"mcp_endpoint: {MCP!r} needs one", ("mcp_endpoint",))
        if self.provider_id == BUILTIN:
            for field in ("mcp_endpoint", "args"):
                if getattr(self, field):
                    raise Unsupported(f"{field}: a toolgroup of {BUILTIN!r} takes none; leave it out", (field,))
        return Toolgroup(
            identifier=self.toolgroup_id,
            provider_resource_id=self.toolgroup_id,
            provider_id=self.provider_id,
            mcp_endpoint=self.mcp_endpoint,
            args=self.args or None,
        )


class RegisterShield(NullMeansDefault):
    shield_id: Identifier
    provider_shield_id: str | None = None
    provider_id: str = LLAMA_GUARD
    params: JsonObject | None = None

    def to_shield(self) -> Shield:
        """Return the shield. Raises Unsupported, naming what would have no effect."""
        refuse_unknown_provider(self.provider_id, LLAMA_GUARD)
        return Shield(
            identifier=self.shield_id,
            provider_resource_id=self.shield_id if self.provider_shield_id is None else self.provider_shield_id,
            params=self.params,
        )


def refuse_mcp_endpoint(names: Iterable[str]) -> None:
    """Raise Unsupported if a query names an endpoint whose tools are to be listed."""
    if any(name.partition("[")[0] == "mcp_endpoint" for name in names):
        raise Unsupported("mcp_endpoint: this server calls no MCP endpoints yet; leave it out", ("mcp_endpoint",))


def refuse_unknown_provider(provider_id: str, *known: str) -> None:
    """Raise Unsupported if none of the known providers is meant."""
    if provider_id not in known:
        there = ", ".join(known)
        raise Unsupported(f"provider_id: this server has no {provider_id!r}; it has: {there}", ("provider_id",))
