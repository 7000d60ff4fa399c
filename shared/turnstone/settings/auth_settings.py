"""Settings of those who know callers by their tokens; apart, because most functions leave that to the gateway."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from turnstone.settings.config import PREFIX, LambdaSettings, Settings, variable_of
from turnstone.settings.setting_values import claims_in, keys_url


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

    @property
    def tenant_turns(self) -> int:
        """Places that one tenant may take: all of them where all callers are the same."""
        return self.max_running_turns if self.auth == "off" else super().tenant_turns

    def contradictions(self) -> list[str]:
        """Return what else is wrong: with the way callers prove who they are."""
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
    """The settings of a command that works on a table. It takes what a function has, and needs the table only."""

    bucket: str | None = None  # type: ignore[assignment] # needed where payloads may be large
