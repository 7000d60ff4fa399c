"""Parameters of a shield at its registration, and the shield that they build.

Covers: adapters/models/offline/offline, adapters/shields/bedrock_guardrail, adapters/shields/factory,
  adapters/shields/llama_guard, adapters/shields/pattern
"""

from __future__ import annotations

from typing import Any

import pytest

from turnstone.adapters.models.offline.offline import OfflineInference
from turnstone.adapters.shields.bedrock_guardrail import GuardrailChecksShield, GuardrailShield
from turnstone.adapters.shields.factory import MOST_KEPT, EveryShieldKind
from turnstone.adapters.shields.llama_guard import LlamaGuardShield
from turnstone.adapters.shields.pattern import PatternShield
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.registry.registry import Shield
from turnstone.domain.shields.shields import LlamaGuardParams, params_of


def kinds() -> EveryShieldKind:
    def no_model() -> Any:
        raise AssertionError("no request is made before a shield judges")

    return EveryShieldKind(no_model, no_model)


def shield(provider_id: str, params: dict[str, Any] | None = None, name: str = "s") -> Shield:
    return Shield(identifier=name, provider_resource_id=name, provider_id=provider_id, params=params)


MADE: list[tuple[str, dict[str, Any] | None, type[Any]]] = [
    ("llama-guard", None, LlamaGuardShield),
    ("pattern", {"words": ["bad"]}, PatternShield),
    ("bedrock", None, GuardrailShield),
    ("bedrock", {"checks": {"prompt_attack": ["JAILBREAK"]}}, GuardrailChecksShield),
]


@pytest.mark.parametrize(("provider_id", "params", "made"), MADE)
def test_a_shield_is_made_of_its_kind_without_a_request(provider_id: str, params: Any, made: type[Any]) -> None:
    assert isinstance(kinds().build(shield(provider_id, params)), made)


WRONG: list[tuple[str, dict[str, Any], tuple[str | int, ...]]] = [
    ("llama-guard", {"model": "m"}, ("params", "model")),
    ("llama-guard", {"categories": []}, ("params", "categories")),
    ("llama-guard", {"categories": ["S1", "s2"]}, ("params", "categories", 1)),
    ("llama-guard", {"violation_level": "fatal"}, ("params", "violation_level")),
    ("llama-guard", {"timeout_seconds": 0}, ("params", "timeout_seconds")),
    ("llama-guard", {"timeout_seconds": 61}, ("params", "timeout_seconds")),
    ("llama-guard", {"user_message": ""}, ("params", "user_message")),
    ("llama-guard", {"on_failure": "ignore"}, ("params", "on_failure")),
    ("bedrock", {"guardrail_version": "0"}, ("params", "guardrail_version")),
    ("bedrock", {"guardrail_version": "1", "checks": {"content_filter": ["HATE"]}}, ("params",)),
    ("bedrock", {"threshold": 0.5}, ("params",)),
    ("bedrock", {"checks": {"content_filter": ["LOVE"]}}, ("params", "checks", "content_filter", 0)),
    ("bedrock", {"checks": {"content_filter": []}}, ("params", "checks")),
    ("bedrock", {"checks": {"sensitive_information": ["email"]}}, ("params", "checks", "sensitive_information", 0)),
    ("bedrock", {"checks": {"prompt_attack": ["JAILBREAK"]}, "threshold": 2}, ("params", "threshold")),
    ("pattern", {}, ("params",)),
    ("pattern", {"words": []}, ("params",)),
    ("pattern", {"words": [""]}, ("params", "words", 0)),
    ("pattern", {"words": ["x" * 201]}, ("params", "words", 0)),
    ("pattern", {"words": ["x"] * 2_001}, ("params", "words")),
    ("pattern", {"patterns": ["x" * 1_001]}, ("params", "patterns", 0)),
    ("pattern", {"patterns": ["x"] * 101}, ("params", "patterns")),
    ("pattern", {"patterns": ["("]}, ("params", "patterns", 0)),
    ("pattern", {"categories": ["S1"], "words": ["x"]}, ("params", "categories")),
    ("nemo", {}, ("provider_id",)),
]


@pytest.mark.parametrize(("provider_id", "params", "location"), WRONG)
def test_a_parameter_that_a_kind_does_not_take_is_refused_by_its_location(
    provider_id: str, params: dict[str, Any], location: tuple[str | int, ...]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        kinds().build(shield(provider_id, params))
    assert refused.value.location == location
    assert str(refused.value).startswith(".".join(map(str, location)))


def test_null_is_the_default() -> None:
    params = params_of(shield("llama-guard", {"categories": None, "on_failure": None, "timeout_seconds": None}))
    assert params == LlamaGuardParams()
    assert (params.on_failure, params.violation_level, params.timeout_seconds) == ("block", "error", 10)


def test_a_shield_is_made_once_for_as_long_as_its_definition_stays() -> None:
    every = kinds()
    first = every.build(shield("pattern", {"words": ["bad"]}))
    assert every.build(shield("pattern", {"words": ["bad"], "patterns": None})) is first
    assert every.build(shield("pattern", {"words": ["worse"]})) is not first
    for number in range(MOST_KEPT):
        every.build(shield("pattern", {"words": [f"w{number}"]}))
        assert every.build(shield("pattern", {"words": ["bad"]})) is first, "a used shield stays"
    for number in range(MOST_KEPT):
        every.build(shield("pattern", {"words": [f"v{number}"]}))
    assert every.build(shield("pattern", {"words": ["bad"]})) is not first


def test_a_value_that_json_can_not_represent_is_not_taken_for_null() -> None:
    every = kinds()
    every.build(shield("llama-guard", {"categories": None}))
    with pytest.raises(InvalidRequest):
        every.build(shield("llama-guard", {"categories": float("inf")}))


def test_two_names_of_one_model_are_two_shields() -> None:
    every = EveryShieldKind(OfflineInference, lambda: None)
    assert every.build(shield("llama-guard", name="a")) is not every.build(shield("llama-guard", name="b"))
