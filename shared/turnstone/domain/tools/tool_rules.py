"""Rules on the order of a turn's tool calls: the tools that its next inference may call. Pure.

Source: the tool rules of Letta. Calls of other turns do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from turnstone.domain.values.frozen import Frozen


class FirstTool(Frozen):
    """The turn's first call is of this tool, or of another one with such a rule."""

    type: Literal["first"]
    tool_name: str


class ChildTools(Frozen):
    """After this tool, only these may be called, and one must be."""

    type: Literal["children"]
    tool_name: str
    children: tuple[str, ...]


class ConditionalTools(Frozen):
    """After this tool, its answer decides which tool must be called.

    Attributes:
        child_by_answer: the tool to call, by the text of the answer; true, false and numbers in their usual spellings.
        default_child: the tool for any other answer; without one, all tools.
        needs_match: whether another answer allows no tool at all.
    """

    type: Literal["conditional"]
    tool_name: str
    child_by_answer: dict[str, str]
    default_child: str | None = None
    needs_match: bool = False


class TerminalTool(Frozen):
    """The loop ends after this tool, unless its call fails or it has children."""

    type: Literal["terminal"]
    tool_name: str


ToolRule = Annotated[FirstTool | ChildTools | ConditionalTools | TerminalTool, Field(discriminator="type")]


def allowed_tools(
    rules: Sequence[ToolRule], offered: Iterable[str], last_call: str | None, last_answer: str
) -> frozenset[str]:
    """Return the tools that the next inference may call, of the offered ones; none if rules exclude each other.

    Args:
        last_call: the tool that the turn called last, None before its first call.
        last_answer: the text of that tool's answer.
    """
    allowed = frozenset(offered)
    first = frozenset(rule.tool_name for rule in rules if isinstance(rule, FirstTool))
    if last_call is None:
        return allowed & first if first else allowed
    for rule in rules:
        if rule.tool_name != last_call:
            continue
        if isinstance(rule, ChildTools):
            allowed &= frozenset(rule.children)
        elif isinstance(rule, ConditionalTools) and (child := _child_of(rule, last_answer)) is not None:
            allowed &= child
    return allowed


def has_children(rules: Iterable[ToolRule], tool_name: str) -> bool:
    """Return whether a rule restricts the tools after this one."""
    return any(isinstance(rule, ChildTools | ConditionalTools) and rule.tool_name == tool_name for rule in rules)


def is_terminal(rules: Iterable[ToolRule], tool_name: str) -> bool:
    """Return whether the loop ends after this tool."""
    return any(isinstance(rule, TerminalTool) and rule.tool_name == tool_name for rule in rules)


def _child_of(rule: ConditionalTools, answer: str) -> frozenset[str] | None:
    """Return the tools after that answer, None for all."""
    matching = _matching(rule.child_by_answer, answer)
    if matching is not None:
        return frozenset((matching,))
    if rule.needs_match:
        return frozenset()
    return None if rule.default_child is None else frozenset((rule.default_child,))


def _matching(child_by_answer: Mapping[str, str], answer: str) -> str | None:
    answer = answer.strip()
    if answer in child_by_answer:
        return child_by_answer[answer]
    value = _value_in(answer)
    if value is None:
        return None
    return next((child for text, child in child_by_answer.items() if _value_in(text) == value), None)


def _value_in(text: str) -> tuple[str, float] | None:
    """Return the truth value or the number in the text, None for other texts."""
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return ("truth", float(lowered == "true"))
    try:
        return ("number", float(lowered))
    except ValueError:
        return None
