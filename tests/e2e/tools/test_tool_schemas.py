"""JSON schemas of tools, as clients of 0.3 send and read them.

Covers: functions/tools, domain/tools/tool_schemas
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}},
    "required": ["city"],
    "$defs": {"city": {"type": "string", "enum": ["Oslo", "Bergen"]}},
}
WEATHER = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "input_schema": SCHEMA,
    "output_schema": {"type": "string"},
}
ZONE = "IANA name of the time zone, such as Europe/Berlin. UTC if left out."
CLOCK = {"type": "object", "properties": {"timezone": {"type": "string", "description": ZONE}}, "required": []}


def test_tools_are_passed_to_the_model_and_listed_with_their_schemas(tmp_path: Path) -> None:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("0.3.5", "schema_tool", server.url, json.dumps(WEATHER))
    function = {"name": "get_weather", "description": "Tell the weather.", "parameters": SCHEMA}
    assert [[{"type": "function", "function": function}]] == [request["tools"] for request in model.requests]
    assert seen["read"] == WEATHER
    assert "input_schema" in seen["refused"]
    assert seen["listed"] == [["current_time", "builtin::clock", CLOCK]] * 3
    assert seen["groups"] == ["builtin::clock", "builtin::websearch", "builtin::wolfram_alpha", "builtin::rag"]
