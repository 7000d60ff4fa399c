"""Tool instructions in the system message of a model without native tools. Pure.

Source: the Llama Stack contract. `append` adds ours to the agent's instructions; `replace` takes the instructions for
the whole prompt, in which a placeholder stands for the descriptions of the functions. Its documents and its code write
that placeholder differently; both are accepted.
"""

import json
import re
from collections.abc import Sequence

from turnstone.adapters.models.prompted.formats import ToolFormat
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolDef

PLACEHOLDER = re.compile(r"\{\{\s*function_(?:descriptions?|definitions?)\s*\}\}")
INTRODUCTION = (
    "You can call functions. Call one only where it helps to answer; otherwise answer in plain words. The program that "
    "runs them sends you what they return in a message of its own, which you then use to answer."
)
FREE_CHOICES = ("auto", "none")


def system_text(instructions: str, tools: Sequence[ToolDef], form: ToolFormat, *, is_replaced: bool) -> str:
    """Return the system message's text. Instructions that replace ours define the format of calls alone."""
    if instructions and is_replaced:
        described = descriptions(tools)
        return PLACEHOLDER.sub(lambda _: described, instructions)
    if not tools:
        return instructions
    return "\n\n".join(part for part in (instructions, INTRODUCTION, descriptions(tools), form.how) if part)


def descriptions(tools: Sequence[ToolDef]) -> str:
    """Return the functions as JSON, one a line."""
    if not tools:
        return "No function can be called now."
    return "\n".join(["These functions can be called:", *(_described(tool) for tool in tools)])


def choice_instruction(tool_choice: str) -> str:
    """Return the instruction for a fixed tool choice, empty for a free one."""
    if tool_choice in FREE_CHOICES:
        return ""
    if tool_choice == "required":
        return "Now you must call at least one function; do not answer in words yet."
    return f"Now you must call the function {tool_choice}; do not answer in words yet."


def _described(tool: ToolDef) -> str:
    described = {"name": tool.name, "description": tool.description or "", "parameters": input_schema_of(tool)}
    return json.dumps(described, ensure_ascii=False)
