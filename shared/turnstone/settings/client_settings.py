"""The settings of a client on this machine. Separate from the others, because no server needs them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnstone.settings.config import (
    KEY,
    URL,
    VISIBLE_ASCII,
    InvalidSettings,
    has_host,
    in_environment,
    problem_text,
    variable_of,
)


class ClientSettings(BaseModel):
    """The server's address, and the client's key."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+\S*$", description=URL)] = "http://127.0.0.1:8321"
    api_key: str | None = Field(default=None, pattern=VISIBLE_ASCII, repr=False, description=KEY)


def load_client_settings(url: str | None, api_key: str | None) -> ClientSettings:
    """Return the options' values, with the environment's values in place of missing ones.

    Raises InvalidSettings, naming the option or the variable.
    """
    given = {name: value for name, value in in_environment().items() if name in ClientSettings.model_fields}
    given |= {name: value for name, value in (("url", url), ("api_key", api_key)) if value is not None}
    flags = {name for name, value in (("url", url), ("api_key", api_key)) if value is not None}

    def named(field: str) -> str:
        return f"--{field.replace('_', '-')}" if field in flags else variable_of(field)

    try:
        settings = ClientSettings.model_validate(given)
    except ValidationError as error:
        raise InvalidSettings(problem_text(ClientSettings, error, named)) from None
    if not has_host(settings.url):
        raise InvalidSettings(f"{named('url')}: must be a URL with a host and a valid port")
    return settings
