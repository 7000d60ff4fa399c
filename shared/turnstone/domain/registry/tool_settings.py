"""Operator's settings of tools: keys and services of the builtin ones, groups for every tenant."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from turnstone.domain.registry.registry import MCP, McpEndpoint, Toolgroup
from turnstone.domain.values.frozen import JsonObject, Strict

Text = Annotated[str, Field(min_length=1, max_length=2_048)]
HttpUrl = Annotated[
    str,
    Field(pattern=r"^https?://[^/\s]+\S*$", description="a URL that begins with http:// or https:// and names a host"),
]


class _Keyed(Strict):
    """A service that requires a key.

    Attributes:
        api_key_env: the variable that holds the key, on one machine.
        api_key_secret: the secret that holds it, on AWS.
        url: the complete address that replaces the service's usual one, such as a proxy's; it may be
            private.
    """

    api_key_env: Text | None = None
    api_key_secret: Text | None = None
    url: HttpUrl | None = None

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.api_key_env and self.api_key_secret:
            raise ValueError("api_key_env: set it or api_key_secret, not both")
        return self


class WebSearchSettings(_Keyed):
    engine: Literal["brave", "bing", "tavily"] = "brave"


class WolframSettings(_Keyed):
    pass


class PhotogenSettings(Strict):
    """The image model: from an OpenAI-compatible provider of the file, or Bedrock.

    Attributes:
        provider: its name in the file.
        model: the image model's name there.
    """

    provider: Text
    model: Text
    size: Annotated[
        str, Field(pattern=r"^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$", description="width and height, such as 1024x1024")
    ] = "1024x1024"


class CodeInterpreterSettings(Strict):
    """Where models' code runs: nowhere, in a subprocess of this machine, or in AgentCore.

    Attributes:
        identifier: of AgentCore's interpreter.
        timeout_seconds: the limit for a piece of code.
        memory_mb: its memory limit, on this machine.
        calls_at_a_time: how many pieces of code run on this machine at a time, across all of its processes; None
            for as many as fit half of its memory.
    """

    runs: Literal["off", "here", "agentcore"] = "off"
    identifier: Text = "aws.codeinterpreter.v1"
    region: Text | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=900)] = 30
    memory_mb: Annotated[int, Field(ge=64, le=65_536)] = 512
    calls_at_a_time: Annotated[int, Field(ge=1, le=1_024)] | None = None

    @model_validator(mode="after")
    def agree(self) -> Self:
        for name in ("memory_mb", "calls_at_a_time"):
            if self.runs == "agentcore" and name in self.model_fields_set:
                raise ValueError(f'{name}: has no effect unless runs is "here"; leave it out')
        return self


class PythonToolSettings(CodeInterpreterSettings):
    """Where tools of Python run, with the settings of code that models write."""


class ToolSettings(Strict):
    """Settings of builtin tools. Defaults are created without validation, which takes long.

    Attributes:
        photogen: None without an image model.
    """

    websearch: WebSearchSettings = WebSearchSettings.model_construct()
    wolfram_alpha: WolframSettings = WolframSettings.model_construct()
    photogen: PhotogenSettings | None = None
    code_interpreter: CodeInterpreterSettings = CodeInterpreterSettings.model_construct()
    python_tools: PythonToolSettings = PythonToolSettings.model_construct()


class ToolgroupEntry(Strict):
    """A toolgroup of an MCP server that agents of every tenant can name."""

    mcp_endpoint: Text
    args: JsonObject | None = None

    def toolgroup(self, name: str) -> Toolgroup:
        """Return the entry as a registered toolgroup."""
        return Toolgroup(
            identifier=name,
            provider_resource_id=name,
            provider_id=MCP,
            mcp_endpoint=McpEndpoint(uri=self.mcp_endpoint),
            args=self.args,
        )
