"""Settings, read from the environment once and validated. The only place that reads the environment."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PREFIX = "TURNSTONE_"
DAY_S = 86_400
YEAR_S = 365 * DAY_S
VISIBLE_ASCII = r"^[\x21-\x7e]+$"  # what an HTTP header can carry
Seconds = Annotated[float, Field(allow_inf_nan=False)]

SAID_BETTER = {
    "extra_forbidden": "there is no such setting",
    "string_pattern_mismatch": "this is no such value: a URL begins with http:// and a host, a key is visible ASCII",
}


class InvalidSettings(Exception):
    """A setting can't be used; the message names the variable."""


class Settings(BaseModel):
    """Every setting, named as its variable without the prefix, in lower case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: int = Field(default=8321, ge=0, le=65535)
    data_dir: Path = Path(".turnstone")
    model_url: str | None = Field(default=None, pattern=r"^https?://[^/\s]+\S*$")
    model_api_key: str | None = Field(default=None, pattern=VISIBLE_ASCII)
    model_timeout_seconds: Seconds = Field(default=600, gt=0, le=DAY_S)
    context_tokens: int = Field(default=32_000, ge=0, le=10_000_000)
    await_seconds: Seconds = Field(default=DAY_S, gt=0, le=YEAR_S)
    lease_seconds: Seconds = Field(default=30, ge=0.3, le=3_600)
    max_running_turns: int = Field(default=64, ge=1, le=4_096)
    max_body_bytes: int = Field(default=6_000_000, ge=1_000, le=100_000_000)
    drain_seconds: Seconds = Field(default=20, ge=0, le=3_600)


def load_settings() -> Settings:
    """Return the settings of this process; an empty variable counts as unset. Raises InvalidSettings."""
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value
    }
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        problems = [
            f"{PREFIX}{str(problem['loc'][0]).upper()}: {SAID_BETTER.get(problem['type'], problem['msg'])}"
            for problem in error.errors(include_input=False)
        ]
        raise InvalidSettings("; ".join(problems)) from None
