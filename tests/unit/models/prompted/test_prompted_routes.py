"""Models with tools in their prompt: those that the operator or the registration marks so, and no other.

Covers: domain/agents/agents, domain/models/routing, domain/registry/catalogue
"""

from __future__ import annotations

from typing import Any

import pytest

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.registry.catalogue import Catalogue, listed_model, registered_route

FORMATS = [None, "json", "function_tag", "python_list"]


def config(form: str | None) -> AgentConfig:
    return AgentConfig.model_validate({"model": "m", "instructions": "", "tool_config": {"tool_prompt_format": form}})


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_is_the_style_for_models_without_tools_and_nothing_for_others(form: str | None) -> None:
    native, prompted = ModelRoute("m", ()), ModelRoute("m", (), tools="prompted")
    assert native.with_prompt_format(config(form)).tool_config.tool_prompt_format is None
    resolved = prompted.with_prompt_format(config(form))
    assert resolved.tool_config.tool_prompt_format == (form or "json")
    assert prompted.with_prompt_format(resolved) == resolved


def test_the_operators_file_marks_a_model_and_its_aliases_and_the_list_shows_it() -> None:
    entry = {"provider": "p", "tools": "prompted", "aliases": ["small"]}
    file = Catalogue.model_validate(
        {"providers": {"p": {"type": "offline"}}, "models": {"m": entry, "n": {"provider": "p"}}}
    )
    routes = file.configured_models().routes
    assert {name: route.tools for name, route in routes.items()} == {
        "m": "prompted",
        "small": "prompted",
        "n": "native",
    }
    assert listed_model(routes["m"]).metadata == {"tools": "prompted"}
    assert listed_model(routes["n"]).metadata == {}


def registered(metadata: dict[str, Any]) -> ModelRoute:
    return registered_route({"identifier": "m", "provider_resource_id": "m", "metadata": metadata})


def test_metadata_of_a_registration_mark_a_model_and_other_values_have_no_effect() -> None:
    assert registered({"tools": "prompted"}).tools == "prompted"
    for free in ({}, {"tools": "native"}, {"tools": True}, {"tools": ["search"]}, {"tools": None}):
        assert registered(free).tools == "native"
    with pytest.raises(InvalidRequest, match=r"metadata\.tools"):
        registered({"tools": "promted"})
