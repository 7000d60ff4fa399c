"""Valid bodies of the routes of Letta's API, each with its grade: only these are certainly right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.server.body_shapes import RIGHT, UNSURE, WRONG

LETTA = "/letta/v1"
AGENTS = f"{LETTA}/agents"
AGENT = f"{AGENTS}/{{agent_id}}"
BLOCKS = f"{AGENT}/memory/block"
BLOCK = f"{BLOCKS}/{{block_label}}"
MESSAGES = f"{AGENT}/messages"
MESSAGE = f"{MESSAGES}/{{message_id}}"
PASSAGES = f"{AGENT}/archival"
PASSAGE = f"{PASSAGES}/{{memory_id}}"
TEXT = {"text": "The sky is blue."}
RESET = f"{AGENT}/reset-messages"
RUNS = f"{LETTA}/runs"
RUN = f"{RUNS}/{{run_id}}"
CREATE: dict[str, Any] = {"name": "Sam", "llm_config": {"model": "offline"}, "tags": ["a"]}
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
    ("PATCH", AGENT): (({"description": "d"},), _grade({"description": "d"})),
    ("POST", BLOCKS): (({"label": "pet", "value": "cat"},), _grade()),
    ("PATCH", BLOCK): (({"value": "dog"},), _grade()),
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
)
LISTS = (
    *(("GET", AGENTS), ("GET", MESSAGES), ("GET", PASSAGES), ("PATCH", RESET)),
    *(("GET", RUNS), ("GET", f"{RUNS}/active"), ("GET", f"{RUN}/messages")),
)


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of a list's query: certain without parameters."""
    return UNSURE if query else RIGHT
