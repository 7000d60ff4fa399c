"""Shields of the operator's file: available to every agent, and checked when the server starts.

Covers: services/shields, bootstrap
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.server.asgi_client import Raw, served
from turnstone.settings.config import InvalidSettings

FILE = """
[shields.words]
provider = "pattern"
params = { words = ["bad"], user_message = "Not here." }

[shields.guard]
provider = "llama-guard"
shield = "guard-8b"
"""
BAD_MESSAGE = {"messages": [{"role": "user", "content": "a BAD thing"}]}


def written(folder: Path, text: str) -> dict[str, Any]:
    file = folder / "turnstone.toml"
    file.write_text(text)
    return {"config": file, "model_url": "offline"}


def test_a_configured_shield_is_listed_judges_turns_and_stays(tmp_path: Path) -> None:
    with served(tmp_path, **written(tmp_path, FILE)) as serving:
        client = serving.client
        guard, words = client.get("/v1/shields").json()["data"]
        assert (guard["identifier"], guard["provider_resource_id"]) == ("guard", "guard-8b")
        assert client.get("/v1/shields/words").json() == words
        config = {"model": "offline", "instructions": "", "input_shields": ["words"]}
        agent = client.post("/v1/agents", {"agent_config": config}).json()["agent_id"]
        session = client.post(f"/v1/agents/{agent}/session", {"session_name": "s"}).json()["session_id"]
        turn = client.post(f"/v1/agents/{agent}/session/{session}/turn", BAD_MESSAGE).json()
        assert turn["output_message"]["content"] == "Not here."
        (step,) = turn["steps"]
        assert step["violation"]["metadata"] == {"shield_id": "words", "found": ["words.0"]}
        assert client.send(Raw("DELETE", b"/v1/shields/words")).status == 400
        another = {"shield_id": "words", "provider_id": "pattern", "params": {"words": ["other"]}}
        assert client.post("/v1/shields", another).status == 400


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[shields.a]\nprovider = "nemo"', "shields.a.provider: must be bedrock, llama-guard or pattern"),
        ('[shields.a]\nprovider = "pattern"', "shields.a.params: name at least one pattern or word"),
        ('[shields.a]\nprovider = "pattern"\nparams = {patterns = ["("]}', "shields.a.params.patterns.0: "),
        ('[shields.a]\nprovider = "llama-guard"\nmodel = "m"', "shields.a.model"),
    ],
)
def test_an_invalid_shield_stops_the_start(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidSettings, match=problem), served(tmp_path, **written(tmp_path, text)):
        pass
