"""Shields on the Llama Stack wire, and refusals of their unsupported fields.

Source: the types of `llama-stack-client` 0.2.12; of requests, unknown fields are ignored, nulls stand for the default.
"""

from pydantic import Field

from turnstone.dialects.llama_stack.requests import given_fields, refuse_unknown_provider
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.messages.messages import Message
from turnstone.domain.registry.registry import BEDROCK, LLAMA_GUARD, PATTERN, Identifier, Shield
from turnstone.domain.turns.turns import SafetyViolation
from turnstone.domain.values.frozen import Frozen, JsonObject, Many, NullMeansDefault

GIVEN = {"provider_shield_id": "provider_resource_id", "provider_id": "provider_id", "params": "params"}


class RegisterShield(NullMeansDefault):
    shield_id: Identifier
    provider_shield_id: str | None = None
    provider_id: str = LLAMA_GUARD
    params: JsonObject | None = None

    @property
    def given(self) -> frozenset[str]:
        """The fields of a shield in the body."""
        return given_fields(self, GIVEN)

    def to_shield(self) -> Shield:
        """Return the shield. Raises Unsupported or InvalidRequest, naming the invalid field."""
        refuse_unknown_provider(self.provider_id, LLAMA_GUARD, BEDROCK, PATTERN)
        if self.provider_id == PATTERN:
            self._refuse_provider_shield(f"a shield of {PATTERN!r} is defined by its params alone")
        if self.provider_id == BEDROCK:
            if (self.params or {}).get("checks") is not None:
                self._refuse_provider_shield("checks need no guardrail")
            elif not self.provider_shield_id:
                message = "provider_shield_id: must name the guardrail, unless params name checks"
                raise InvalidRequest(message, ("provider_shield_id",))
        return Shield(
            identifier=self.shield_id,
            provider_resource_id=self.shield_id if self.provider_shield_id is None else self.provider_shield_id,
            provider_id=self.provider_id,
            params=self.params,
        )

    def _refuse_provider_shield(self, why: str) -> None:
        if self.provider_shield_id not in (None, self.shield_id):
            raise Unsupported(f"provider_shield_id: {why}; leave it out", ("provider_shield_id",))


class RunShield(NullMeansDefault):
    shield_id: str
    messages: Many[Message] = Field(min_length=1)
    params: JsonObject = {}

    def refuse_unsupported(self) -> None:
        """Raise Unsupported for params: a shield runs with the ones of its registration."""
        if self.params:
            raise Unsupported(
                "params: a shield always runs with those it was registered with; leave them out", ("params",)
            )


class ShieldList(Frozen):
    data: tuple[Shield, ...]


class ShieldRun(Frozen):
    violation: SafetyViolation | None
