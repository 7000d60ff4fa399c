"""Request bodies of the Llama Stack API about what can be registered, and what this server can't keep its word on.

Source: the types of `llama-stack-client` 0.2.12; unknown fields are ignored, nulls mean the default.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.messages import Message
from turnstone.domain.model import JsonObject, Many, NullMeansDefault
from turnstone.domain.registry import (
    BEDROCK,
    BUILTIN,
    LLAMA_GUARD,
    MCP,
    PATTERN,
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
        """Return the shield. Raises Unsupported or InvalidRequest, naming the field that is wrong."""
        refuse_unknown_provider(self.provider_id, LLAMA_GUARD, BEDROCK, PATTERN)
        if self.provider_id == PATTERN:
            self._refuse_provider_shield(f"a shield of {PATTERN!r} is all in its params")
        if self.provider_id == BEDROCK:
            if (self.params or {}).get("checks") is not None:
                self._refuse_provider_shield("checks need no guardrail")
            elif not self.provider_shield_id:
                said = "provider_shield_id: names the guardrail; without one, name checks in params"
                raise InvalidRequest(said, ("provider_shield_id",))
        return Shield(
            identifier=self.shield_id,
            provider_resource_id=self.shield_id if self.provider_shield_id is None else self.provider_shield_id,
            provider_id=self.provider_id,
            params=self.params,
        )

    def _refuse_provider_shield(self, why: str) -> None:
        if self.provider_shield_id not in (None, self.shield_id):
            raise Unsupported(f"provider_shield_id: {why}; leave it out", ("provider_shield_id",))


class RunShield(NullMeansDefault):
    shield_id: str
    messages: Many[Message] = Field(min_length=1)
    params: JsonObject = {}

    def refuse_unsupported(self) -> None:
        """Raise Unsupported for params: a shield has those it was registered with."""
        if self.params:
            raise Unsupported("params: a shield has those it was registered with; leave them out", ("params",))


class InvokeTool(NullMeansDefault):  # type: ignore[no-redef] # the plugin names a parameter of its own like that
    tool_name: str = Field(min_length=1, max_length=512)
    arguments: JsonObject = Field(alias="kwargs")


def mcp_endpoint_in(query: Mapping[str, Sequence[str]]) -> str | None:
    """Return the address of the MCP server whose tools are to be listed, None if none is named.

    Source: the official clients send an object's fields in brackets, `mcp_endpoint[uri]`.

    Raises:
        InvalidRequest: it is no address.
    """
    named = {name: values for name, values in query.items() if name.partition("[")[0] == "mcp_endpoint"}
    if not named:
        return None
    uri = named.get("mcp_endpoint[uri]", [""])[-1]
    try:
        return McpEndpoint(uri=uri).uri
    except ValidationError:
        said = "mcp_endpoint: send mcp_endpoint[uri]=, an address that begins with http:// or https://"
        raise InvalidRequest(said, ("mcp_endpoint",)) from None


def refuse_unknown_provider(provider_id: str, *known: str) -> None:
    """Raise Unsupported if none of the known providers is meant."""
    if provider_id not in known:
        there = ", ".join(known)
        raise Unsupported(f"provider_id: this server has no {provider_id!r}; it has: {there}", ("provider_id",))
