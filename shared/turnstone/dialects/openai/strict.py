"""Base classes of OpenAI's request bodies: fields without meaning here are refused by name, or passed on."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import ConfigDict, ValidationInfo, model_validator

from turnstone.domain.values.frozen import NullMeansDefault, refuse_too_deep

NOT_A_CALLERS = "is set by this server; leave it out"
# target and credentials of the request: some gateways read them from a body, and would send this server's key there
OF_THE_CONNECTION = {
    *("apitype", "apiversion", "authorization", "customllmprovider", "defaultheaders", "extrabody", "extraheaders"),
    *("extraquery", "fallbacks", "headers", "litellmparams", "modellist", "organization", "proxies", "proxy"),
    *("remotehost", "userconfig"),
}
ENDS_OF_THE_CONNECTION = ("apibase", "apikey", "baseurl", "endpoint")
# below these the names are a schema's or a text's own
OF_DATA = {
    *("$defs", "definitions", "dependentschemas", "patternproperties", "properties"),
    *("const", "default", "enum", "examples"),
    *("chattemplatekwargs", "documents", "metadata"),
}


class StrictRequest(NullMeansDefault):
    """A value in which null stands for the default, and an unrecognised field is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            declared = cls.model_fields
            return {name: value for name, value in fields.items() if value is not None or name not in declared}
        return fields


class Open(NullMeansDefault):
    """A value whose further fields are passed on to providers with OpenAI's API. Nulls are omitted.

    A further field must not differ from a field by case: servers written in Go read `Model` as `model`, and
    `\u017ftream` as `stream`, so that it would replace the value checked here.
    """

    model_config = ConfigDict(extra="allow")

    @property
    def further(self) -> Mapping[str, Any]:
        """The fields that the contract does not name."""
        return self.model_extra or {}

    @model_validator(mode="after")
    def judge_further(self) -> Self:
        declared = {}
        if self.further:
            declared = {(field.alias or name).casefold(): name for name, field in type(self).model_fields.items()}
        for name, value in self.further.items():
            if name.casefold() in declared:
                raise ValueError(f"{name}: must be written {declared[name.casefold()]}")
            if _is_of_the_connection(name):
                raise ValueError(f"{name}: {NOT_A_CALLERS}")
            try:
                refuse_too_deep(value)
            except ValueError as exc:
                raise ValueError(f"{name}: {exc}") from None
        return self


class OpenBody(Open):
    """The whole body of a request, in whose further fields gateways search for the target."""

    @model_validator(mode="after")
    def judge_within_further(self) -> Self:
        for name, value in self.further.items():
            if (inner := _first_of_the_connection(name, value)) is not None:
                raise ValueError(f"{name}: has {inner!r}, which {NOT_A_CALLERS}")
        return self


def _is_of_the_connection(name: str) -> bool:
    plain = _plain(name)
    return plain in OF_THE_CONNECTION or plain.endswith(ENDS_OF_THE_CONNECTION)


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def _first_of_the_connection(name: str, value: Any) -> str | None:
    """Return the name of a field within the value, nested within the limit, that selects the target."""
    inside: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        if _plain(name) in OF_DATA:
            return None
        for key in filter(_is_of_the_connection, value):
            return str(key)
        inside = value.items()
    elif isinstance(value, list):
        inside = ((name, each) for each in value)
    within = (_first_of_the_connection(key, each) for key, each in inside)
    return next((found for found in within if found is not None), None)


def refuse(value: Any, field: ValidationInfo, reasons: dict[str, str]) -> Any:
    """Return null for null. Raises ValueError for a field that would have no effect."""
    if value is not None:
        raise ValueError(reasons[str(field.field_name)])
    return value
