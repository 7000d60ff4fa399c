"""What OpenAI's request bodies are made of: fields that mean nothing here are refused by name, or passed on."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict, ValidationInfo, model_validator

from turnstone.domain.model import NullMeansDefault, refuse_too_deep

NOT_A_CALLERS = "is set by this server; leave it out"
# which address is asked with whose key: some gateways read that from a body, and would send this server's key there
OF_THE_CONNECTION = {
    *("api_base", "api_key", "api_type", "api_version", "authorization", "base_url", "custom_llm_provider"),
    *("default_headers", "extra_body", "extra_headers", "extra_query", "headers", "organization", "proxies", "proxy"),
}


class Strict(NullMeansDefault):
    """A value in which null means the default, and a field that is not known here is a mistake."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            known = cls.model_fields
            return {name: value for name, value in fields.items() if value is not None or name not in known}
        return fields


class Open(NullMeansDefault):
    """A value whose further fields are passed on to providers that speak OpenAI's API. In all, null is left out.

    A further field can't be known by another case: servers written in Go read `Model` as `model`, and `\u017ftream` as
    `stream`, so that it would replace what was checked here.
    """

    model_config = ConfigDict(extra="allow")

    @property
    def further(self) -> Mapping[str, Any]:
        """The fields that the contract does not name."""
        return self.model_extra or {}

    @model_validator(mode="after")
    def judge_further(self) -> Self:
        known = {}
        if self.further:
            known = {(field.alias or name).casefold(): name for name, field in type(self).model_fields.items()}
        for name, value in self.further.items():
            if name.casefold() in known:
                raise ValueError(f"{name}: must be written {known[name.casefold()]}")
            if name.casefold().replace("-", "_") in OF_THE_CONNECTION:
                raise ValueError(f"{name}: {NOT_A_CALLERS}")
            try:
                refuse_too_deep(value)
            except ValueError as exc:
                raise ValueError(f"{name}: {exc}") from None
        return self


def refuse(value: Any, field: ValidationInfo, reasons: dict[str, str]) -> Any:
    """Return null for null. Raises ValueError for a field that would have no effect."""
    if value is not None:
        raise ValueError(reasons[str(field.field_name)])
    return value
