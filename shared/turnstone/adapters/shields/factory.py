"""Factory of shields; each provider's module is loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, assert_never

from turnstone.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from turnstone.domain.registry.registry import Shield
    from turnstone.domain.shields.shields import AnyParams, BedrockParams
    from turnstone.ports.models import Inference
    from turnstone.ports.shields import RunnableShield

MOST_KEPT = 64


class EveryShieldKind:
    """Creates shields, and caches them while their definitions are unchanged.

    Models and Bedrock come as factories: registering a shield needs neither.
    """

    def __init__(self, inference: Callable[[], Inference], bedrock: Callable[[], Any]) -> None:
        self._inference = inference
        self._bedrock = bedrock
        self._lock = Lock()
        self._kept: dict[str, RunnableShield] = {}

    def build(self, registered: Shield) -> RunnableShield:
        """Return the shield. Raises InvalidRequest, naming the invalid part of its definition."""
        from turnstone.domain.shields.shields import params_of  # imported only where a shield is created

        params = params_of(registered)
        definition = f"{registered.provider_id} {registered.provider_resource_id} {params.model_dump_json()}"
        with self._lock:
            kept = self._kept.pop(definition, None)
            if kept is not None:
                self._kept[definition] = kept  # most recently used
                return kept
        made = self._made(registered, params)
        with self._lock:
            self._kept[definition] = made
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return made

    def _made(self, registered: Shield, params: AnyParams) -> RunnableShield:
        from turnstone.domain.shields.shields import BedrockParams, LlamaGuardParams, PatternParams

        match params:
            case PatternParams():
                from turnstone.adapters.shields.pattern import PatternShield

                return PatternShield(params)
            case LlamaGuardParams():
                from turnstone.adapters.shields.llama_guard import LlamaGuardShield

                return LlamaGuardShield(self._inference, registered.provider_resource_id, params)
            case BedrockParams():
                return self._of_bedrock(registered, params)
            case _:
                assert_never(params)

    def _of_bedrock(self, registered: Shield, params: BedrockParams) -> RunnableShield:
        try:
            from turnstone.adapters.shields.bedrock_guardrail import bedrock_shield
        except ModuleNotFoundError as missing:
            message = (
                f"provider_id: {registered.provider_id!r} needs the package {missing.name}, pip install -e '.[aws]'"
            )
            raise InvalidRequest(message, ("provider_id",)) from missing
        return bedrock_shield(self._bedrock, registered.provider_resource_id, params)
