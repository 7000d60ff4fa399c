"""Tool rules in agent files, whose kinds have other names than those of the API."""

from collections.abc import Iterable
from typing import Any

from turnstone.dialects.letta.tool_rules import from_rule
from turnstone.domain.tools.tool_rules import ToolRule
from turnstone.domain.values.frozen import JsonObject

KINDS = {
    "run_first": "InitToolRule",
    "constrain_child_tools": "ToolRule",
    "conditional": "conditional",
    "exit_loop": "TerminalToolRule",
}
NAMES = {kind: name for name, kind in KINDS.items()}


def rules_in(rules: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the rules by the kinds of the API. Raises ValueError for a kind that this server lacks."""
    return [{**rule, "type": _kind(rule.get("type"))} for rule in rules]


def file_rules(rules: Iterable[ToolRule] | None) -> list[dict[str, Any]]:
    """Return the rules as a file has them."""
    shown = (from_rule(rule).model_dump() for rule in rules or ())
    return [{**rule, "type": NAMES[rule["type"]]} for rule in shown]


def _kind(name: object) -> str:
    kind = str(name)
    if kind in NAMES:
        return kind
    if kind not in KINDS:
        raise ValueError(f"this server has no tool rule of the type {kind[:50]!r}; leave it out")
    return KINDS[kind]
