"""Settings, read from the environment once and validated. The only module that reads the environment."""

import os
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from turnstone.settings.setting_values import hosts_in, none_in, origins_in, upper_case, without_end_slashes

PREFIX = "TURNSTONE_"
OFFLINE = "offline"
DAY_S = 86_400
YEAR_S = 365 * DAY_S
OF_CLIENTS = frozenset({"api_key", "url"})  # variables of clients, which may be exported in a server's shell
VISIBLE_ASCII = r"^[\x21-\x7e]+$"  # the characters of an HTTP header
URL = "a URL that begins with http:// or https:// and names a host"
KEY = "a key of visible ASCII characters without spaces"
ModelUrl = Annotated[
    str, Field(pattern=rf"^({OFFLINE}|https?://[^/\s]+\S*)$", description=f"{URL}, or the word {OFFLINE}")
]
PublicUrl = Annotated[
    str,
    Field(pattern=r"^https?://[^/\s?#]+[^\s?#]*[^/\s?#]$", description=f"{URL}, without a query"),
    BeforeValidator(without_end_slashes),
]
Seconds = Annotated[float, Field(allow_inf_nan=False)]
TokenLimit = Annotated[
    Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None,
    BeforeValidator(none_in),
    Field(description="a whole number from 1 to 1,000,000,000,000, or the word none"),
]
TimeLimit = Annotated[
    Annotated[float, Field(gt=0, le=YEAR_S, allow_inf_nan=False)] | None,
    BeforeValidator(none_in),
    Field(description=f"a number of seconds above 0 and at most {YEAR_S:,}, or the word none"),
]
ModelName = Annotated[
    Annotated[str, Field(pattern=VISIBLE_ASCII, max_length=256)] | None,
    BeforeValidator(none_in),
    Field(description="the name of a model without spaces, or the word none"),
]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(upper_case)]


class InvalidSettings(Exception):
    """An invalid setting; the message names the variable."""


class InvalidFile(InvalidSettings):
    """An invalid operator's file; the message begins with the variable that names it.

    Attributes:
        reason: the message without that.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{PREFIX}CONFIG: {reason}")
        self.reason = reason

    def of(self, file: object) -> str:
        """Return the message prefixed with the file's path, and the variable if it names the file."""
        return (
            f"{PREFIX}CONFIG={file}: {self.reason}" if text_of_variable(f"{PREFIX}CONFIG") else f"{file}: {self.reason}"
        )


class Settings(BaseModel):
    """Common settings of both environments. A field has its variable's name in lower case, without the prefix.

    Attributes:
        context_tokens: the limit of a prompt, in estimated tokens, for a model without a configured context window.
        summaries: let the model summarise turns that no longer fit its context window.
        graph_model: the model that reads edges from texts inserted into graph banks; None for none.
        stored_completion_ttl_s: the lifetime of a stored chat completion.
        responses_ttl_s: the lifetime of a response's conversation after its last use.
        max_running_turns: slots for turns and direct requests to models, tools and shields.
        max_tenant_turns: slots for one tenant; None for three quarters of them.
        max_infer_iters: the upper limit of the field of this name in agents and turns.
        max_turn_tokens: tokens after which a turn makes no further inference, None for no limit.
        max_turn_seconds: running time after which a turn fails, waits for its client excluded; None for no limit.
        tool_timeout_seconds: the time limit of a server tool.
        max_tool_output: how many characters of a tool's answer a model receives; all of it is stored.
        public_url: the prefix of attachment URLs, up to and without /v1; none: paths of this server.
        max_day_tokens: the tokens of a day (UTC) after which a tenant begins no turn, None for no limit.
        cors_origins: the origins of pages that may call the API from a browser, in lower case.
        fetch_allow: private hosts and ports that may be fetched, by http, too.
        log_level: the lowest level of our log lines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model_timeout_seconds: Seconds = Field(default=600, gt=0, le=DAY_S)
    context_tokens: int = Field(default=32_000, ge=0, le=10_000_000)
    await_seconds: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    ephemeral_ttl_s: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    stored_completion_ttl_s: Seconds = Field(default=30 * DAY_S, gt=0, le=YEAR_S)
    responses_ttl_s: Seconds = Field(default=30 * DAY_S, gt=0, le=YEAR_S)
    lease_seconds: Seconds = Field(default=30, ge=0.3, le=3_600)
    max_running_turns: int = Field(default=64, ge=1, le=4_096)
    max_tenant_turns: int | None = Field(default=None, ge=1, le=4_096)
    max_infer_iters: int = Field(default=100, ge=10, le=10_000)  # 10 is the default of the official clients
    summaries: bool = False
    graph_model: ModelName = None
    max_turn_tokens: TokenLimit = 5_000_000
    max_turn_seconds: TimeLimit = 3_600
    max_day_tokens: TokenLimit = None
    tool_timeout_seconds: Seconds = Field(default=60, gt=0, le=900)
    max_tool_output: int = Field(default=32_000, ge=100, le=1_000_000)
    public_url: PublicUrl | None = None
    max_body_bytes: int = Field(default=6_000_000, ge=1_000, le=100_000_000)
    max_file_bytes: int = Field(default=512 * 1024**2, ge=1_000, le=8 * 1024**3)
    owner_only: bool = False
    fetch_allow: Annotated[tuple[tuple[str, int], ...], BeforeValidator(hosts_in)] = ()
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(origins_in)] = ()
    model_url: ModelUrl | None = None
    log_level: LogLevel = "INFO"

    def contradictions(self) -> list[str]:
        """Return the problems of settings that are valid one by one, each naming a variable."""
        if self.max_tenant_turns is not None and self.max_tenant_turns > self.max_running_turns:
            limit = f"{variable_of('max_running_turns')}, which is {self.max_running_turns}"
            return [f"{variable_of('max_tenant_turns')}: must not be above {limit}", *self._wrong_model_url()]
        return self._wrong_model_url()

    @property
    def tenant_turns(self) -> int:
        """Slots for one tenant."""
        return self.max_tenant_turns or max(1, self.max_running_turns * 3 // 4)

    def _wrong_model_url(self) -> list[str]:
        if self.model_url in (None, OFFLINE) or has_host(str(self.model_url)):
            return []
        return [f"{variable_of('model_url')}: must be a URL with a host and a valid port"]


class LambdaSettings(Settings):
    """The settings of a Lambda, as the template sets them.

    Attributes:
        model_url: required where turns run; without a default, so the offline model must be configured explicitly.
        jobs_queue_url: the queue of clean-up jobs; required where resources are deleted.
        ingest_queue_url: the queue of insertions of files; required where files become documents.
        config: the parameter, of the Systems Manager, with the operator's file of models.
        model_api_key_secret: the secret with the model's key.
        state_machine_arn: the machine that supervises turns which await their clients.
        auth_scheme: the authentication scheme, for a function whose gateway passes unauthenticated requests on.
        route_module: the module of the streaming server's route, such as `turns.create_turn`.
    """

    table: str
    bucket: str
    state_machine_arn: str | None = None
    jobs_queue_url: str | None = None
    ingest_queue_url: str | None = None
    config: str | None = None
    model_api_key_secret: str | None = None
    route_module: str | None = None
    auth_scheme: Literal["bearer", "sigv4"] | None = None


def prefers_plain_text() -> bool:
    """Return whether the user's terminal is configured without colours. Source: https://no-color.org."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def text_of_variable(name: str) -> str | None:
    """Return the value of a variable that an operator's file names, None if it is empty."""
    return os.environ.get(name) or None


def names_a_table() -> bool:
    """Return whether the environment names a table of DynamoDB, so that data is not on this machine."""
    return bool(os.environ.get(f"{PREFIX}TABLE"))


def chosen_log_level() -> str:
    """Return the log level, for settings validated elsewhere."""
    return in_environment().get("log_level", "INFO").upper()


def is_function(module: str) -> bool:
    """Return whether this process is the Lambda whose handler is in that module."""
    return os.environ.get("_HANDLER") == f"{module}.handler"


Kind = TypeVar("Kind", bound=Settings)


def load_settings(kind: type[Kind]) -> Kind:
    """Return the settings of this process; an empty variable counts as unset. Raises InvalidSettings."""
    given = {name: value for name, value in in_environment().items() if name not in OF_CLIENTS}
    try:
        settings = kind.model_validate(given)
    except ValidationError as error:
        raise InvalidSettings(problem_text(kind, error)) from None
    if contradictions := settings.contradictions():
        raise InvalidSettings("; ".join(contradictions))
    return settings


def variable_of(field: str) -> str:
    """Return the name of a field's variable."""
    return f"{PREFIX}{field.upper()}"


def in_environment() -> dict[str, str]:
    """Return our variables' values, by the names of their fields."""
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value
    }


def problem_text(kind: type[BaseModel], error: ValidationError, named: Callable[[str], str] = variable_of) -> str:
    """Return the problems of settings, by their variables, or by their `named` names, without values."""
    from turnstone.settings.setting_problems import problems_in_settings  # imported only where a start fails

    elsewhere = () if issubclass(kind, LambdaSettings) else LambdaSettings.model_fields
    return problems_in_settings(kind, error, lambda loc: named(str(loc[0])), elsewhere)


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def has_host(url: str) -> bool:
    """Return whether the URL names a host, and a valid port."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
