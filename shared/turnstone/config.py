"""Settings, read from the environment once and validated. The only place that reads the environment."""

import os
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyAddress, ValidationError

from turnstone.setting_values import claims_in, keys_url, places_in

PREFIX = "TURNSTONE_"
OFFLINE = "offline"
USUAL_FILE = Path("turnstone.toml")
DAY_S = 86_400
YEAR_S = 365 * DAY_S
VISIBLE_ASCII = r"^[\x21-\x7e]+$"  # what an HTTP header can carry
ModelUrl = Annotated[str, Field(pattern=rf"^({OFFLINE}|https?://[^/\s]+\S*)$")]
Seconds = Annotated[float, Field(allow_inf_nan=False)]

SAID_BETTER = {
    "extra_forbidden": "there is no such setting",
    "string_pattern_mismatch": "this is no such value: a URL begins with http:// and a host (the word offline will do, "
    "too), a key is visible ASCII",
    "missing": "must be set",
}


class InvalidSettings(Exception):
    """A setting can't be used; the message names the variable."""


class Settings(BaseModel):
    """What both places to run in have in common. A field is named as its variable without the prefix, in lower case.

    Attributes:
        context_tokens: what a model is sent at most, in estimated tokens, where its window is not known.
        summaries: have the model sum up the turns that its window has no room for any more.
        max_turn_tokens: after how many tokens a turn asks the model no more, None for any number.
        tool_timeout_seconds: how long a tool of the server may take.
        max_tool_output: how many characters of a tool's answer a model is shown; all of it is kept.
        public_url: what the addresses of attachments begin with, up to and without /v1; none: paths of this server.
        max_day_tokens: after how many tokens of a day (UTC) a tenant begins no turn, None for any number.
        fetch_allow: hosts and ports that may be fetched from although they are private, by http, too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model_timeout_seconds: Seconds = Field(default=600, gt=0, le=DAY_S)
    context_tokens: int = Field(default=32_000, ge=0, le=10_000_000)
    await_seconds: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    ephemeral_ttl_s: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    lease_seconds: Seconds = Field(default=30, ge=0.3, le=3_600)
    max_running_turns: int = Field(default=64, ge=1, le=4_096)
    summaries: bool = False
    max_turn_tokens: int | None = Field(default=None, ge=1, le=1_000_000_000_000)
    max_day_tokens: int | None = Field(default=None, ge=1, le=1_000_000_000_000)
    tool_timeout_seconds: Seconds = Field(default=60, gt=0, le=900)
    max_tool_output: int = Field(default=32_000, ge=100, le=1_000_000)
    public_url: Annotated[str, Field(pattern=r"^https?://[^/\s?#]+[^\s?#]*[^/\s?#]$")] | None = None
    max_body_bytes: int = Field(default=6_000_000, ge=1_000, le=100_000_000)
    owner_only: bool = False
    fetch_allow: Annotated[tuple[tuple[str, int], ...], BeforeValidator(places_in)] = ()
    model_url: ModelUrl | None = None

    def contradictions(self) -> list[str]:
        """Return what is wrong with settings that are right by themselves, each time naming a variable."""
        if self.model_url in (None, OFFLINE) or _has_host(str(self.model_url)):
            return []
        return [f"{_variable('model_url')}: names no host, or a port that there can't be"]


class AuthSettings(Settings):
    """How callers prove who they are.

    Attributes:
        jwt_claims: which claim holds a field of the caller, by the field's name.
        jwt_tenant: the tenant of all callers, where no claim names one.
    """

    auth: Literal["off", "api_keys", "jwt"] = "off"
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_jwks_url: Annotated[str, AfterValidator(keys_url)] | None = None
    jwt_claims: Annotated[Mapping[str, str], BeforeValidator(claims_in)] = {"principal": "sub"}
    jwt_tenant: str | None = None

    def contradictions(self) -> list[str]:
        """Return what else is wrong: with the way callers prove who they are."""
        wrong = super().contradictions()
        if self.auth != "jwt":
            given = sorted(name for name in self.model_fields_set if name.startswith("jwt_"))
            return [*wrong, *(f"{_variable(name)}: means nothing unless {PREFIX}AUTH is jwt" for name in given)]
        needed = ("jwt_issuer", "jwt_audience", "jwt_jwks_url")
        wrong += [f"{_variable(name)}: must be set" for name in needed if getattr(self, name) is None]
        if ("tenant" in self.jwt_claims) == (self.jwt_tenant is not None):
            how = f"either it names the tenant of all callers, or {PREFIX}JWT_CLAIMS the claim that does (tenant=…)"
            wrong.append(f"{_variable('jwt_tenant')}: {how}")
        return wrong


class LocalSettings(AuthSettings):
    """The settings of a server on one machine.

    Attributes:
        allow_open: without authentication, answer whoever reaches the server, by whatever name.
        config: the operator's file of models; turnstone.toml of the folder it is started in, if there is one.
        auth_cache_seconds: for how long a key or token may be good after it was taken back.
        processes: how many serve; each runs `max_running_turns` at most.
    """

    host: IPvAnyAddress = IPv4Address("127.0.0.1")
    allow_open: bool = False
    auth_cache_seconds: Seconds = Field(default=10, ge=0, le=60)
    port: int = Field(default=8321, ge=0, le=65535)
    data_dir: Path = Path(".turnstone")
    config: Path | None = None
    model_url: ModelUrl = OFFLINE
    model_api_key: str | None = Field(default=None, pattern=VISIBLE_ASCII)
    drain_seconds: Seconds = Field(default=20, ge=0, le=3_600)
    processes: int = Field(default=1, ge=1, le=64)

    @property
    def models_file(self) -> Path | None:
        """The file of models, None if there is none."""
        return self.config or (USUAL_FILE if USUAL_FILE.is_file() else None)

    def contradictions(self) -> list[str]:
        """Return what else is wrong: a server is open to others only if somebody says so."""
        wrong = super().contradictions()
        if self.auth == "off" and not self.host.is_loopback and not self.allow_open:
            how = f"set {PREFIX}AUTH, or {PREFIX}ALLOW_OPEN=true to serve everybody who reaches it"
            wrong.append(f"{_variable('host')}: others than this machine could use the server; {how}")
        if self.auth != "off" and self.allow_open:
            wrong.append(f"{_variable('allow_open')}: means nothing unless {PREFIX}AUTH is off")
        if self.auth == "off" and "auth_cache_seconds" in self.model_fields_set:
            wrong.append(f"{_variable('auth_cache_seconds')}: means nothing while {PREFIX}AUTH is off")
        return wrong


class LambdaSettings(Settings):
    """The settings of a Lambda, as the template sets them.

    Attributes:
        model_url: needed where turns run; nothing stands in for it, the offline model must be asked for by name.
        jobs_queue_url: the queue of clean-up jobs; needed where something is deleted.
        config: name of the parameter, of the Systems Manager, that holds the operator's file of models.
        model_api_key_secret: name of the secret that holds the model's key.
        state_machine_arn: the machine that looks after turns which wait for their clients.
        route_module: whose route the streaming server serves, such as `turns.create_turn`.
    """

    table: str
    bucket: str
    state_machine_arn: str | None = None
    jobs_queue_url: str | None = None
    config: str | None = None
    model_api_key_secret: str | None = None
    route_module: str | None = None


class AuthorizerSettings(LambdaSettings, AuthSettings):
    """The settings of the API's authorizer."""

    auth: Literal["api_keys", "jwt"]


class TableSettings(LambdaSettings, AuthSettings):
    """The settings of a command that works on a table. It takes what a function has, and needs the table only."""

    bucket: str | None = None  # type: ignore[assignment] # needed where payloads may be large


class ClientSettings(BaseModel):
    """Where a client of this machine finds the server, and the key it shows there."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+\S*$")] = "http://127.0.0.1:8321"
    api_key: str | None = Field(default=None, pattern=VISIBLE_ASCII, repr=False)


def load_client_settings(url: str | None, api_key: str | None) -> ClientSettings:
    """Return what is given, and what the environment says where nothing is. Raises InvalidSettings."""
    given = {name: value for name, value in _in_environment().items() if name in ClientSettings.model_fields}
    given |= {name: value for name, value in (("url", url), ("api_key", api_key)) if value is not None}
    try:
        settings = ClientSettings.model_validate(given)
    except ValidationError as error:
        raise InvalidSettings(_told(error)) from None
    if not _has_host(settings.url):
        raise InvalidSettings(f"{_variable('url')}: names no host, or a port that there can't be")
    return settings


def wants_plain_text() -> bool:
    """Tell whether whoever sits at the terminal asked for no colours. Source: https://no-color.org."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def text_of_variable(name: str) -> str | None:
    """Return what a variable says whose name an operator's file tells, None if it says nothing."""
    return os.environ.get(name) or None


def names_a_table() -> bool:
    """Tell whether the environment names a table of DynamoDB, and so a place that is not this machine."""
    return bool(os.environ.get(f"{PREFIX}TABLE"))


def is_function(module: str) -> bool:
    """Tell whether this process is the Lambda whose handler is in that module."""
    return os.environ.get("_HANDLER") == f"{module}.handler"


Kind = TypeVar("Kind", bound=Settings)


def load_settings(kind: type[Kind]) -> Kind:
    """Return the settings of this process; an empty variable counts as unset. Raises InvalidSettings."""
    # a client's variables may be exported in the shell that a server is started in
    given = {name: value for name, value in _in_environment().items() if name not in ClientSettings.model_fields}
    try:
        settings = kind.model_validate(given)
    except ValidationError as error:
        raise InvalidSettings(_told(error)) from None
    if contradictions := settings.contradictions():
        raise InvalidSettings("; ".join(contradictions))
    return settings


def _in_environment() -> dict[str, str]:
    """Return what our variables say, by the names of their fields."""
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value
    }


def _told(error: ValidationError) -> str:
    problems = error.errors(include_input=False)
    return "; ".join(f"{_variable(str(p['loc'][0]))}: {SAID_BETTER.get(p['type'], p['msg'])}" for p in problems)


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
