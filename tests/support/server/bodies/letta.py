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
TOOLS = f"{LETTA}/tools"
OWN_TOOL = f"{TOOLS}/{{tool_id}}"
NEW_TOOL = {"source_code": "def roll(sides: int):\n    'Roll a die.'\n    return sides\n"}
RUN_TOOL = {**NEW_TOOL, "args": {"sides": "6"}}
TAGGED = {"tags": ["dice"]}
LETTA_TOOL = {"tool_id": f"tool-{tool_id('send_message')}", "name": "send_message"}
TEXT = {"text": "The sky is blue."}
RESET = f"{AGENT}/reset-messages"
SOURCES = f"{LETTA}/sources"
SOURCE = f"{SOURCES}/{{source_id}}"
UPLOAD = f"{SOURCE}/upload"
NEW_SOURCE = {"name": "birds"}
SENT_FILE = FormBody(file="Herons nest.")
JOBS = f"{LETTA}/jobs"
JOB = f"{JOBS}/{{job_id}}"
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
    ("POST", TOOLS): ((NEW_TOOL,), _grade(NEW_TOOL)),
    ("PUT", TOOLS): ((NEW_TOOL,), _grade(NEW_TOOL)),
    ("PATCH", OWN_TOOL): ((TAGGED,), _grade(TAGGED)),
    ("POST", f"{TOOLS}/run"): ((RUN_TOOL,), _grade(RUN_TOOL)),
    ("POST", PASSAGES): ((TEXT,), _grade(TEXT)),
    ("POST", MESSAGES): ((SENT,), _grade(SENT)),
    ("POST", f"{MESSAGES}/stream"): ((SENT,), _grade(SENT)),
    ("POST", f"{MESSAGES}/async"): ((SENT,), _grade(SENT)),
    ("POST", SOURCES): ((NEW_SOURCE,), _grade(NEW_SOURCE)),
    ("PATCH", SOURCE): (({"description": "d"},), _grade({"description": "d"})),
    ("POST", UPLOAD): ((SENT_FILE,), lambda _: UNSURE),
}
READ = (
    ("GET", f"{LETTA}/health"),
    ("GET", f"{LETTA}/models"),
    ("POST", f"{LETTA}/tools/add-base-tools"),
    ("GET", AGENT),
    ("GET", f"{AGENT}/export"),
    ("DELETE", AGENT),
    ("GET", f"{AGENT}/memory"),
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
    ("PATCH", f"{AGENT}/add-tool/{{tool_id}}"),
    ("PATCH", f"{AGENT}/remove-tool/{{tool_id}}"),
    ("GET", f"{LETTA}/models/embedding"),
    ("GET", f"{LETTA}/tools/{{tool_id}}"),
    ("GET", f"{LETTA}/tools/name/{{name}}"),
    ("GET", OWN_BLOCK),
    ("DELETE", OWN_BLOCK),
    ("GET", SOURCE),
    ("DELETE", SOURCE),
    ("GET", f"{SOURCES}/name/{{source_name}}"),
    ("DELETE", f"{SOURCE}/{{file_id}}"),
    ("GET", JOB),
    ("DELETE", JOB),
    ("DELETE", OWN_TOOL),
)
OF_AGENT = (
    ("PATCH", f"{OWN_BLOCK}/attach"),
    ("PATCH", f"{OWN_BLOCK}/detach"),
    ("POST", f"{SOURCE}/attach"),
    ("POST", f"{SOURCE}/detach"),
)
WITHOUT_ANSWER = (*OF_AGENT[:2], ("DELETE", f"{SOURCE}/{{file_id}}"))
LISTS = (
    ("GET", BLOCKS),
    ("GET", f"{AGENT}/tools"),
    ("GET", f"{AGENT}/sources"),
    ("GET", AGENTS),
    ("GET", MESSAGES),
    ("GET", PASSAGES),
    ("GET", ALL_BLOCKS),
    ("GET", TOOLS),
    ("GET", f"{LETTA}/tags"),
    ("PATCH", RESET),
    ("GET", RUNS),
    ("GET", f"{RUNS}/active"),
    ("GET", f"{RUN}/messages"),
    ("GET", SOURCES),
    ("GET", f"{SOURCE}/files"),
    ("GET", f"{SOURCE}/passages"),
    ("GET", JOBS),
    ("GET", f"{JOBS}/active"),
)


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of a list's query: certain without parameters."""
    return UNSURE if query else RIGHT
