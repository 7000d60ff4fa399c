"""Settings of servers that verify tokens; separate, because most functions leave that to the gateway."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from turnstone.settings.config import PREFIX, LambdaSettings, Settings, variable_of
from turnstone.settings.setting_values import claims_in, keys_url


class AuthSettings(Settings):
    """Authentication of callers.

    Attributes:
        jwt_claims: the claim of each field of the caller, by the field's name.
        jwt_tenant: the tenant of all callers, where no claim names one.
    """

    auth: Literal["off", "api_keys", "jwt"] = "off"
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_jwks_url: Annotated[str, AfterValidator(keys_url)] | None = None
    jwt_claims: Annotated[Mapping[str, str], BeforeValidator(claims_in)] = {"principal": "sub"}
    jwt_tenant: str | None = None

    @property
    def tenant_turns(self) -> int:
        """Slots for one tenant: all of them if all callers are the same."""
        return self.max_running_turns if self.auth == "off" else super().tenant_turns

    def contradictions(self) -> list[str]:
        """Return the problems of the authentication settings."""
        wrong = super().contradictions()
        if self.auth != "jwt":
            given = sorted(name for name in self.model_fields_set if name.startswith("jwt_"))
            return [*wrong, *(f"{variable_of(name)}: has no effect unless {PREFIX}AUTH is jwt" for name in given)]
        needed = ("jwt_issuer", "jwt_audience", "jwt_jwks_url")
        wrong += [f"{variable_of(name)}: must be set" for name in needed if getattr(self, name) is None]
        if ("tenant" in self.jwt_claims) == (self.jwt_tenant is not None):
            how = f"either it names the tenant of all callers, or {PREFIX}JWT_CLAIMS the claim that does (tenant=…)"
            wrong.append(f"{variable_of('jwt_tenant')}: {how}")
        return wrong


class AuthorizerSettings(LambdaSettings, AuthSettings):
    """The settings of the API's authorizer."""

    auth: Literal["api_keys", "jwt"]


class TableSettings(LambdaSettings, AuthSettings):
    """The settings of a command for a table: a function's settings, of which only the table is required."""

    bucket: str | None = None  # type: ignore[assignment] # needed where payloads may be large
