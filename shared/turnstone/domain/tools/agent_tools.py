"""Tool definitions of an agent as in September 2024: builtin tools with settings of their own, and functions.

Source: the API of that time, as far as `llama-stack-2024.md` of the contract describes it.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, WithJsonSchema

from turnstone.domain.provider_data import is_sendable
from turnstone.domain.tools.memory_tools import MemoryTool
from turnstone.domain.values.frozen import JsonObject, JsonValue, Many, NullMeansDefault
from turnstone.domain.values.numbers import Flag

MASK = str(SecretStr("any"))
HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}"  # compiled at the first definition with headers


def refuse_mask(text: str) -> str:
    """Return the text. Raises ValueError for the mask of secrets in answers, or a text no header can carry."""
    if text == MASK:
        raise ValueError(f"{MASK} stands for a secret in answers: send the secret itself, or leave it out")
    if not is_sendable(text):
        raise ValueError("a secret must be a string that is valid in an HTTP header")
    return text


def _refuse_mask_of_secret(secret: SecretStr) -> SecretStr:
    refuse_mask(secret.get_secret_value())
    return secret


def refuse_no_name(name: str) -> str:
    """Return the name. Raises ValueError if it is not valid for a header."""
    if not re.fullmatch(HEADER_NAME, name):
        raise ValueError("this is not a valid HTTP header name")
    return name


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


# the mask in answers
AN_ANSWERS_KEY = WithJsonSchema({"type": "string", "format": "password"}, mode="serialization")
ToolKey = Annotated[SecretStr, AfterValidator(_refuse_mask_of_secret), AN_ANSWERS_KEY]
HeaderName = Annotated[str, AfterValidator(refuse_no_name)]
HeaderValue = Annotated[
    SecretStr,
    BeforeValidator(_number_as_text),
    AfterValidator(_refuse_mask_of_secret),
    WithJsonSchema({"type": ["string", "number"]}, mode="validation"),
    WithJsonSchema({"type": "string"}, mode="serialization"),
]


class RemoteExecution(NullMeansDefault):
    """The remote address of a tool: the call's argument of that name replaces `{name}` in the URL.

    A GET has the call's arguments in its query, after `params`; a POST in a JSON object, after those of `body`. The
    values of `headers` are secret.
    """

    url: Annotated[str, Field(min_length=1, max_length=2_048)]
    method: Literal["GET", "POST", "PUT", "DELETE"]
    params: JsonObject = {}
    headers: dict[HeaderName, HeaderValue] = {}
    body: JsonObject = {}


class _Common(NullMeansDefault):
    input_shields: Many[str] = ()
    output_shields: Many[str] = ()
    remote_execution: RemoteExecution | None = None


class BraveSearchTool(_Common):
    type: Literal["brave_search"]
    api_key: ToolKey | None = None
    engine: Literal["brave", "bing", "tavily"] = "brave"


class WolframAlphaTool(_Common):
    type: Literal["wolfram_alpha"]
    api_key: ToolKey | None = None


class PhotogenTool(_Common):
    type: Literal["photogen"]


class CodeInterpreterTool(_Common):
    """Runs the model's Python code on the server, or on the client if `enable_inline_code_execution` is false."""

    type: Literal["code_interpreter"]
    enable_inline_code_execution: Flag = True


class FunctionParameter(NullMeansDefault):
    param_type: str
    description: str | None = None
    required: Flag = True
    default: JsonValue = None


class FunctionCallTool(_Common):
    """A function of the client, or one that the server calls by `remote_execution`."""

    type: Literal["function_call"]
    function_name: Annotated[str, Field(min_length=1)]
    description: str = ""
    parameters: dict[str, FunctionParameter] = {}


CallableTool = BraveSearchTool | WolframAlphaTool | PhotogenTool | CodeInterpreterTool | FunctionCallTool
AgentTool = Annotated[CallableTool | MemoryTool, Field(discriminator="type")]
