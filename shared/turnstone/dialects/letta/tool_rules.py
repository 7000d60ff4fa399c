"""Tool rules of Letta's API, to and from those of the loop."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, assert_never

from pydantic import BeforeValidator, Field

from turnstone.domain.tools.tool_rules import ChildTools, ConditionalTools, FirstTool, TerminalTool, ToolRule
from turnstone.domain.values.frozen import Frozen


class InitRule(Frozen):
    """The turn's first call is of this tool."""

    type: Literal["InitToolRule"] = "InitToolRule"
    tool_name: str


class ChildRule(Frozen):
    """After this tool, only its children may be called."""

    type: Literal["ToolRule"] = "ToolRule"
    tool_name: str
    children: tuple[str, ...]


class ConditionalRule(Frozen):
    """After this tool, its answer decides which tool must be called."""

    type: Literal["conditional"] = "conditional"
    tool_name: str
    default_child: str | None = None
    child_output_mapping: dict[str, str]
    require_output_mapping: bool = False


class TerminalRule(Frozen):
    """The turn ends after this tool."""

    type: Literal["TerminalToolRule"] = "TerminalToolRule"
    tool_name: str


def typed(rule: Any) -> Any:
    """Return the rule with a type: that of its fields, where the client sends none, or that of an init rule.

    Source: Letta's union of rules, whose first member with these fields is taken.
    """
    if not isinstance(rule, dict) or rule.get("type") is not None:
        return rule
    kinds = {"children": "ToolRule", "child_output_mapping": "conditional"}
    return {**rule, "type": next((kind for field, kind in kinds.items() if field in rule), "InitToolRule")}


AnyRule = Annotated[InitRule | ChildRule | ConditionalRule | TerminalRule, Field(discriminator="type")]
WireToolRule = Annotated[AnyRule, BeforeValidator(typed)]


def to_rule(rule: WireToolRule) -> ToolRule:
    """Return the rule of the loop."""
    match rule:
        case InitRule():
            return FirstTool(type="first", tool_name=rule.tool_name)
        case ChildRule():
            return ChildTools(type="children", tool_name=rule.tool_name, children=rule.children)
        case ConditionalRule():
            return ConditionalTools(
                type="conditional",
                tool_name=rule.tool_name,
                child_by_answer=rule.child_output_mapping,
                default_child=rule.default_child,
                needs_match=rule.require_output_mapping,
            )
        case TerminalRule():
            return TerminalTool(type="terminal", tool_name=rule.tool_name)
        case _:
            assert_never(rule)


def wire_rules(rules: Iterable[ToolRule]) -> tuple[WireToolRule, ...]:
    """Return the rules as the API shows them."""
    return tuple(map(from_rule, rules))


def from_rule(rule: ToolRule) -> WireToolRule:
    """Return the rule as the API shows it."""
    match rule:
        case FirstTool():
            return InitRule(tool_name=rule.tool_name)
        case ChildTools():
            return ChildRule(tool_name=rule.tool_name, children=rule.children)
        case ConditionalTools():
            return ConditionalRule(
                tool_name=rule.tool_name,
                default_child=rule.default_child,
                child_output_mapping=rule.child_by_answer,
                require_output_mapping=rule.needs_match,
            )
        case TerminalTool():
            return TerminalRule(tool_name=rule.tool_name)
        case _:
            assert_never(rule)
