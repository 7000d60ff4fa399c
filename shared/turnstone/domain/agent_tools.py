"""The tool definitions of an agent as they were in September 2024: built-in ones with settings of their own, functions.

Source: the API of that time, as far as `llama-stack-2024.md` of the contract tells it. Memory is not among them.
"""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from turnstone.domain.model import JsonObject, JsonValue, Many, NullMeansDefault
from turnstone.domain.numbers import Flag


class RemoteExecution(NullMeansDefault):
    """Where a tool is run instead: `{name}` in the URL is replaced by the call's argument of that name.

    A GET has the call's arguments in its query, after `params`; a POST in a JSON object, after what `body` has.
    """

    url: Annotated[str, Field(min_length=1, max_length=2_048)]
    method: Literal["GET", "POST", "PUT", "DELETE"]
    params: JsonObject = {}
    headers: JsonObject = {}
    body: JsonObject = {}


class _Common(NullMeansDefault):
    input_shields: Many[str] = ()
    output_shields: Many[str] = ()
    remote_execution: RemoteExecution | None = None


class BraveSearchTool(_Common):
    type: Literal["brave_search"]
    api_key: SecretStr | None = None
    engine: Literal["brave", "bing", "tavily"] = "brave"


class WolframAlphaTool(_Common):
    type: Literal["wolfram_alpha"]
    api_key: SecretStr | None = None


class PhotogenTool(_Common):
    type: Literal["photogen"]


class CodeInterpreterTool(_Common):
    type: Literal["code_interpreter"]
    enable_inline_code_execution: Flag = True


class FunctionParameter(NullMeansDefault):
    param_type: str
    description: str | None = None
    required: Flag = True
    default: JsonValue = None


class FunctionCallTool(_Common):
    type: Literal["function_call"]
    function_name: Annotated[str, Field(min_length=1)]
    description: str = ""
    parameters: dict[str, FunctionParameter] = {}


AgentTool = Annotated[
    BraveSearchTool | WolframAlphaTool | PhotogenTool | CodeInterpreterTool | FunctionCallTool,
    Field(discriminator="type"),
]
