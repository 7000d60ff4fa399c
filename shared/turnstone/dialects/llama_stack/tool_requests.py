"""Requests of the Llama Stack API about toolgroups and tools, and refusals of their unsupported fields.

Source: the types of `llama-stack-client` 0.2.12; unknown fields are ignored, nulls stand for the default.
"""

from collections.abc import Mapping, Sequence

from pydantic import Field, ValidationError

from turnstone.dialects.llama_stack.requests import refuse_unknown_provider
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.registry.registry import BUILTIN, MCP, PROVIDERS_ELSEWHERE, Identifier, McpEndpoint, Toolgroup
from turnstone.domain.values.frozen import JsonObject, NullMeansDefault


class RegisterToolgroup(NullMeansDefault):
    toolgroup_id: Identifier
    provider_id: str
    mcp_endpoint: McpEndpoint | None = None
    args: JsonObject | None = None

    @property
    def is_of_a_set_up_script(self) -> bool:
        """Whether the body names a group of Llama Stack's own with its provider there."""
        return self.provider_id in PROVIDERS_ELSEWHERE.get(self.toolgroup_id, ())

    def to_toolgroup(self) -> Toolgroup:
        """Return the toolgroup. Raises Unsupported or InvalidRequest, naming the invalid field."""
        provider_id = BUILTIN if self.is_of_a_set_up_script else self.provider_id
        refuse_unknown_provider(provider_id, BUILTIN, MCP)
        if "/" in self.toolgroup_id:
            raise InvalidRequest(
                "toolgroup_id: must not contain a slash, which separates a group from a tool", ("toolgroup_id",)
            )
        if self.provider_id == MCP and self.mcp_endpoint is None:
            raise InvalidRequest(f"mcp_endpoint: is required with the provider {MCP!r}", ("mcp_endpoint",))
        if provider_id == BUILTIN:
            for field in ("mcp_endpoint", "args"):
                if getattr(self, field):
                    raise Unsupported(f"{field}: has no effect with the provider {BUILTIN!r}; leave it out", (field,))
        return Toolgroup(
            identifier=self.toolgroup_id,
            provider_resource_id=self.toolgroup_id,
            provider_id=provider_id,
            mcp_endpoint=self.mcp_endpoint,
            args=self.args or None,
        )


class InvokeTool(NullMeansDefault):  # type: ignore[no-redef] # the plugin names a parameter of its own like that
    tool_name: str = Field(min_length=1, max_length=512)
    arguments: JsonObject = Field(alias="kwargs")


def mcp_endpoint_in(query: Mapping[str, Sequence[str]]) -> str | None:
    """Return the address of the MCP server whose tools are to be listed, None without one.

    Source: the official clients send an object's fields in brackets, `mcp_endpoint[uri]`.

    Raises:
        InvalidRequest: the value is not an address.
    """
    named = {name: values for name, values in query.items() if name.partition("[")[0] == "mcp_endpoint"}
    if not named:
        return None
    uri = named.get("mcp_endpoint[uri]", [""])[-1]
    try:
        return McpEndpoint(uri=uri).uri
    except ValidationError:
        message = "mcp_endpoint: send mcp_endpoint[uri]=, an address that begins with http:// or https://"
        raise InvalidRequest(message, ("mcp_endpoint",)) from None
