"""Scripts that set up a Llama Stack run here without harm: their registrations exist already and stay the operator's.

Covers: functions/models, functions/shields, functions/tools
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

FILE = """
[providers.local]
type = "openai"
url = "http://127.0.0.1:1/v1"
[providers.offline]
type = "offline"
[models.fast]
provider = "local"
model = "gpt-oss-20b"
context_tokens = 32000
[shields.rude]
provider = "pattern"
params = {words = ["rude"]}
[toolgroups."mcp::wiki"]
mcp_endpoint = "https://wiki.example/mcp"
"""
BUILT_IN = ["builtin::clock", "builtin::rag", "builtin::websearch", "builtin::wolfram_alpha"]
VERSIONS = ("0.1.9", "0.2.0", "0.2.12", "0.2.23", "0.3.5")


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.2.12",)))
def test_built_in_resources_are_registered_and_unregistered_without_harm(version: str, tmp_path: Path) -> None:
    file = tmp_path / "turnstone.toml"
    file.write_text('default_provider = "offline"\n' + FILE)
    with ServerProcess(tmp_path, config=file) as server:
        seen = run_script(version, "set_up", server.url)
    assert {name: status for name, (status, _) in seen["refused"].items()} == {
        "another model": 400,
        "another provider": 400,
        "other metadata": 400,
        "another shield": 400,
        "another provider of a group": 400,
        "arguments of a group": 400,
        "a group of the file": 400,
    }
    reasons = {name: json.loads(body) for name, (_, body) in seen["refused"].items()}
    assert "model_id: 'fast' comes with the server" in json.dumps(reasons["another model"])
    assert "shield_id: 'rude' comes with the server" in json.dumps(reasons["another shield"])
    assert seen["toolgroups"] == [*BUILT_IN, "mcp::wiki"]
    assert seen["listed"] == [["local", "gpt-oss-20b"], ["pattern", "rude"]]
