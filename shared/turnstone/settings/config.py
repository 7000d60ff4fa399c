"""Settings, read from the environment once and validated. The only place that reads the environment."""

import os
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from turnstone.settings.setting_values import none_in, places_in, upper_case, without_end_slashes

PREFIX = "TURNSTONE_"
OFFLINE = "offline"
DAY_S = 86_400
YEAR_S = 365 * DAY_S
OF_CLIENTS = frozenset({"api_key", "url"})  # whose variables may be exported in the shell that a server is started in
VISIBLE_ASCII = r"^[\x21-\x7e]+$"  # what an HTTP header can carry
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
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(upper_case)]


class InvalidSettings(Exception):
    """A setting can't be used; the message names the variable."""


class InvalidFile(InvalidSettings):
    """The operator's file can't be used; the message begins with the variable that names it.

    Attributes:
        reason: the message without that.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{PREFIX}CONFIG: {reason}")
        self.reason = reason

    def of(self, file: object) -> str:
        """Return the message with the file's path in front, and the variable where it names the file."""
        return (
            f"{PREFIX}CONFIG={file}: {self.reason}" if text_of_variable(f"{PREFIX}CONFIG") else f"{file}: {self.reason}"
        )


class Settings(BaseModel):
    """What both places to run in have in common. A field is named as its variable without the prefix, in lower case.

    Attributes:
        context_tokens: what a model is sent at most, in estimated tokens, where its window is not known.
        summaries: have the model sum up the turns that its window has no room for any more.
        stored_completion_ttl_s: how long a chat completion is kept that was to be stored.
        max_running_turns: places for turns and direct questions to models, tools and shields.
        max_tenant_turns: places that one tenant may take; None for three quarters of them.
        max_infer_iters: bound of what an agent or a turn may ask for under this name.
        max_turn_tokens: tokens after which a turn asks the model no more, None for any number.
        max_turn_seconds: running time after which a turn fails, waits for its client apart; None for any time.
        tool_timeout_seconds: how long a tool of the server may take.
        max_tool_output: how many characters of a tool's answer a model is shown; all of it is kept.
        public_url: what the addresses of attachments begin with, up to and without /v1; none: paths of this server.
        max_day_tokens: after how many tokens of a day (UTC) a tenant begins no turn, None for any number.
        fetch_allow: hosts and ports that may be fetched from although they are private, by http, too.
        log_level: the least of a log line of ours.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model_timeout_seconds: Seconds = Field(default=600, gt=0, le=DAY_S)
    context_tokens: int = Field(default=32_000, ge=0, le=10_000_000)
    await_seconds: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    ephemeral_ttl_s: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    stored_completion_ttl_s: Seconds = Field(default=30 * DAY_S, gt=0, le=YEAR_S)
    lease_seconds: Seconds = Field(default=30, ge=0.3, le=3_600)
    max_running_turns: int = Field(default=64, ge=1, le=4_096)
    max_tenant_turns: int | None = Field(default=None, ge=1, le=4_096)
    max_infer_iters: int = Field(default=100, ge=10, le=10_000)  # 10 is the default of the official clients
    summaries: bool = False
    max_turn_tokens: TokenLimit = 5_000_000
    max_turn_seconds: TimeLimit = 3_600
    max_day_tokens: TokenLimit = None
    tool_timeout_seconds: Seconds = Field(default=60, gt=0, le=900)
    max_tool_output: int = Field(default=32_000, ge=100, le=1_000_000)
    public_url: PublicUrl | None = None
    max_body_bytes: int = Field(default=6_000_000, ge=1_000, le=100_000_000)
    owner_only: bool = False
    fetch_allow: Annotated[tuple[tuple[str, int], ...], BeforeValidator(places_in)] = ()
    model_url: ModelUrl | None = None
    log_level: LogLevel = "INFO"

    def contradictions(self) -> list[str]:
        """Return what is wrong with settings that are right by themselves, each time naming a variable."""
        if self.max_tenant_turns is not None and self.max_tenant_turns > self.max_running_turns:
            places = f"{variable_of('max_running_turns')}, which is {self.max_running_turns}"
            return [f"{variable_of('max_tenant_turns')}: must not be above {places}", *self._wrong_model_url()]
        return self._wrong_model_url()

    @property
    def tenant_turns(self) -> int:
        """Places that one tenant may take."""
        return self.max_tenant_turns or max(1, self.max_running_turns * 3 // 4)

    def _wrong_model_url(self) -> list[str]:
        if self.model_url in (None, OFFLINE) or has_host(str(self.model_url)):
            return []
        return [f"{variable_of('model_url')}: must be a URL with a host and a valid port"]


class LambdaSettings(Settings):
    """The settings of a Lambda, as the template sets them.

    Attributes:
        model_url: needed where turns run; nothing stands in for it, the offline model must be asked for by name.
        jobs_queue_url: the queue of clean-up jobs; needed where something is deleted.
        config: name of the parameter, of the Systems Manager, that holds the operator's file of models.
        model_api_key_secret: name of the secret that holds the model's key.
        state_machine_arn: the machine that looks after turns which wait for their clients.
        auth_scheme: how callers prove who they are, for a function that the gateway passes requests of anybody to.
        route_module: whose route the streaming server serves, such as `turns.create_turn`.
    """

    table: str
    bucket: str
    state_machine_arn: str | None = None
    jobs_queue_url: str | None = None
    config: str | None = None
    model_api_key_secret: str | None = None
    route_module: str | None = None
    auth_scheme: Literal["bearer", "sigv4"] | None = None


def wants_plain_text() -> bool:
    """Tell whether whoever sits at the terminal asked for no colours. Source: https://no-color.org."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def text_of_variable(name: str) -> str | None:
    """Return what a variable says whose name an operator's file tells, None if it says nothing."""
    return os.environ.get(name) or None


def names_a_table() -> bool:
    """Tell whether the environment names a table of DynamoDB, and so a place that is not this machine."""
    return bool(os.environ.get(f"{PREFIX}TABLE"))


def chosen_log_level() -> str:
    """Return the level of log lines, where settings of another kind have checked it."""
    return in_environment().get("log_level", "INFO").upper()


def is_function(module: str) -> bool:
    """Tell whether this process is the Lambda whose handler is in that module."""
    return os.environ.get("_HANDLER") == f"{module}.handler"


Kind = TypeVar("Kind", bound=Settings)


def load_settings(kind: type[Kind]) -> Kind:
    """Return the settings of this process; an empty variable counts as unset. Raises InvalidSettings."""
    given = {name: value for name, value in in_environment().items() if name not in OF_CLIENTS}
    try:
        settings = kind.model_validate(given)
    except ValidationError as error:
        raise InvalidSettings(told(kind, error)) from None
    if contradictions := settings.contradictions():
        raise InvalidSettings("; ".join(contradictions))
    return settings


def variable_of(field: str) -> str:
    """Return the name of the variable that a field of the settings is read from."""
    return f"{PREFIX}{field.upper()}"


def in_environment() -> dict[str, str]:
    """Return what our variables say, by the names of their fields."""
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value
    }


def told(kind: type[BaseModel], error: ValidationError, named: Callable[[str], str] = variable_of) -> str:
    """Return what is wrong with settings, by their variables, or as they are `named`, and without their values."""
    from turnstone.settings.setting_problems import problems_in_settings  # only where a start fails

    elsewhere = () if issubclass(kind, LambdaSettings) else LambdaSettings.model_fields
    return problems_in_settings(kind, error, lambda place: named(str(place[0])), elsewhere)


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def has_host(url: str) -> bool:
    """Tell whether the URL names a host, and a port that there can be."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
