"""Separate secrets from an agent's tool definitions, which are stored with masks instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnstone.domain.tools.agent_tools import AgentTool

Secrets = dict[str, dict[str, Any]]


def secrets_of(tools: Sequence[AgentTool]) -> Secrets:
    """Return the plain-text secrets of each definition with any, by the definition's index."""
    found: Secrets = {}
    for index, tool in enumerate(tools):
        kept: dict[str, Any] = {}
        if (key := getattr(tool, "api_key", None)) is not None:
            kept["api_key"] = key.get_secret_value()
        remote = getattr(tool, "remote_execution", None)
        if remote is not None and remote.headers:
            kept["headers"] = {name: value.get_secret_value() for name, value in remote.headers.items()}
        if kept:
            found[str(index)] = kept
    return found


def unmasked(tools: Sequence[Mapping[str, Any]], secrets: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stored definitions with their secrets in place of the masks."""
    definitions = [dict(tool) for tool in tools]
    for index, kept in secrets.items():
        tool = definitions[int(index)]
        if "api_key" in kept:
            tool["api_key"] = kept["api_key"]
        if "headers" in kept:
            tool["remote_execution"] = {**tool["remote_execution"], "headers": kept["headers"]}
    return definitions
