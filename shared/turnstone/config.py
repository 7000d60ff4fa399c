"""Settings, read from the environment once and validated. The only place that reads the environment."""

import os
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PREFIX = "TURNSTONE_"
OFFLINE = "offline"
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
    """What both places to run in have in common. A field is named as its variable without the prefix, in lower case."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model_timeout_seconds: Seconds = Field(default=600, gt=0, le=DAY_S)
    context_tokens: int = Field(default=32_000, ge=0, le=10_000_000)
    await_seconds: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    lease_seconds: Seconds = Field(default=30, ge=0.3, le=3_600)
    max_running_turns: int = Field(default=64, ge=1, le=4_096)
    max_body_bytes: int = Field(default=6_000_000, ge=1_000, le=100_000_000)
    owner_only: bool = False
    model_url: ModelUrl | None = None


class LocalSettings(Settings):
    """The settings of a server on one machine."""

    port: int = Field(default=8321, ge=0, le=65535)
    data_dir: Path = Path(".turnstone")
    model_url: ModelUrl = OFFLINE
    model_api_key: str | None = Field(default=None, pattern=VISIBLE_ASCII)
    drain_seconds: Seconds = Field(default=20, ge=0, le=3_600)


class LambdaSettings(Settings):
    """The settings of a Lambda, as the template sets them.

    Attributes:
        model_url: needed where turns run; nothing stands in for it, the offline model must be asked for by name.
        model_api_key_secret: name of the secret that holds the model's key.
        state_machine_arn: the machine that looks after turns which wait for their clients.
        route_module: whose route the streaming server serves, such as `turns.create_turn`.
    """

    table: str
    bucket: str
    state_machine_arn: str | None = None
    model_api_key_secret: str | None = None
    route_module: str | None = None


def is_function(module: str) -> bool:
    """Tell whether this process is the Lambda whose handler is in that module."""
    return os.environ.get("_HANDLER") == f"{module}.handler"


Kind = TypeVar("Kind", bound=Settings)


def load_settings(kind: type[Kind]) -> Kind:
    """Return the settings of this process; an empty variable counts as unset. Raises InvalidSettings."""
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value
    }
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        problems = [
            f"{PREFIX}{str(problem['loc'][0]).upper()}: {SAID_BETTER.get(problem['type'], problem['msg'])}"
            for problem in error.errors(include_input=False)
        ]
        raise InvalidSettings("; ".join(problems)) from None
