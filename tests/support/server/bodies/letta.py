"""Valid bodies of the routes of Letta's API, each with its grade: only these are certainly right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.clients.forms import FormBody
from tests.support.server.body_shapes import RIGHT, UNSURE, WRONG
from turnstone.domain.letta.agents import tool_id

LETTA = "/letta/v1"
AGENTS = f"{LETTA}/agents"
AGENT = f"{AGENTS}/{{agent_id}}"
BLOCKS = f"{AGENT}/memory/block"
BLOCK = f"{BLOCKS}/{{block_label}}"
MESSAGES = f"{AGENT}/messages"
MESSAGE = f"{MESSAGES}/{{message_id}}"
PASSAGES = f"{AGENT}/archival"
PASSAGE = f"{PASSAGES}/{{memory_id}}"
ALL_BLOCKS = f"{LETTA}/blocks"
OWN_BLOCK = f"{ALL_BLOCKS}/{{block_id}}"
NEW_BLOCK = {"label": "pet", "value": "cat"}
LETTA_TOOL = {"tool_id": f"tool-{tool_id('send_message')}", "name": "send_message"}
TEXT = {"text": "The sky is blue."}
RESET = f"{AGENT}/reset-messages"
RUNS = f"{LETTA}/runs"
RUN = f"{RUNS}/{{run_id}}"
CREATE: dict[str, Any] = {"name": "Sam", "llm_config": {"model": "offline"}, "tags": ["a"]}
IMPORT = f"{AGENTS}/import"
FILE = FormBody(file='{"agents": [{"name": "Sam", "llm_config": {"model": "offline"}}]}')
SENT: dict[str, Any] = {"messages": [{"role": "user", "text": "hello"}]}


def _grade(*valid: Any) -> Callable[[Any], int]:
    def grade(body: Any) -> int:
        if not isinstance(body, dict):
            return WRONG
        return RIGHT if body in valid else UNSURE

    return grade


# valid bodies of each route, and their grade
GRADES: Mapping[tuple[str, str], tuple[Sequence[Any], Callable[[Any], int]]] = {
    ("POST", AGENTS): ((CREATE,), _grade(CREATE)),
    ("POST", IMPORT): ((FILE,), lambda _: UNSURE),
    ("PATCH", AGENT): (({"description": "d"},), _grade({"description": "d"})),
    ("POST", BLOCKS): (({"label": "pet", "value": "cat"},), _grade()),
    ("PATCH", BLOCK): (({"value": "dog"},), _grade()),
    ("POST", ALL_BLOCKS): ((NEW_BLOCK,), _grade(NEW_BLOCK)),
    ("PATCH", OWN_BLOCK): (({"value": "dog"},), _grade({"value": "dog"})),
    ("PATCH", MESSAGE): ((TEXT,), _grade()),
    ("POST", PASSAGES): ((TEXT,), _grade(TEXT)),
    ("POST", MESSAGES): ((SENT,), _grade(SENT)),
    ("POST", f"{MESSAGES}/stream"): ((SENT,), _grade(SENT)),
    ("POST", f"{MESSAGES}/async"): ((SENT,), _grade(SENT)),
}
READ = (
    ("GET", f"{LETTA}/health"),
    ("GET", f"{LETTA}/models"),
    ("GET", f"{LETTA}/tools"),
    ("POST", f"{LETTA}/tools/add-base-tools"),
    ("GET", AGENT),
    ("GET", f"{AGENT}/export"),
    ("DELETE", AGENT),
    ("GET", f"{AGENT}/memory"),
    ("GET", BLOCKS),
    ("GET", BLOCK),
    ("DELETE", BLOCK),
    ("DELETE", PASSAGE),
    ("GET", f"{AGENT}/memory/archival"),
    ("GET", RUN),
    ("DELETE", RUN),
    ("GET", f"{RUN}/usage"),
    ("GET", f"{AGENT}/memory/messages"),
    ("GET", f"{AGENT}/memory/recall"),
    ("GET", f"{AGENT}/context"),
    ("GET", f"{AGENT}/tools"),
    ("PATCH", f"{AGENT}/add-tool/{{tool_id}}"),
    ("PATCH", f"{AGENT}/remove-tool/{{tool_id}}"),
    ("GET", f"{LETTA}/models/embedding"),
    ("GET", f"{LETTA}/tools/{{tool_id}}"),
    ("GET", f"{LETTA}/tools/name/{{name}}"),
    ("GET", OWN_BLOCK),
    ("DELETE", OWN_BLOCK),
)
OF_AGENT = (("PATCH", f"{OWN_BLOCK}/attach"), ("PATCH", f"{OWN_BLOCK}/detach"))
LISTS = (
    ("GET", AGENTS),
    ("GET", MESSAGES),
    ("GET", PASSAGES),
    ("GET", ALL_BLOCKS),
    ("GET", f"{LETTA}/tags"),
    ("PATCH", RESET),
    ("GET", RUNS),
    ("GET", f"{RUNS}/active"),
    ("GET", f"{RUN}/messages"),
)


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of a list's query: certain without parameters."""
    return UNSURE if query else RIGHT
