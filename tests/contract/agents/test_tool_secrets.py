"""Keys in an agent's tool definitions are in one line of one record, and in no answer, list or log.

Covers: domain/tools/tool_secrets, store/agents/agents
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from pydantic import SecretStr

from tests.support.server.asgi_client import Raw, Served, served
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.tools.agent_tools import MASK
from turnstone.ports.records import Key, Put, RevIs
from turnstone.store.agents.agents import AgentStore
from turnstone.store.layout.keys import agent_key
from turnstone.store.layout.oversize import OversizeStore

KEYS = ("plain-key-of-brave", "plain-key-of-wolfram", "plain-header-of-look")
TOOLS = [
    {"type": "brave_search", "engine": "brave", "api_key": KEYS[0]},
    {"type": "wolfram_alpha", "api_key": KEYS[1]},
    {
        "type": "function_call",
        "function_name": "look",
        "remote_execution": {
            "url": "https://example.com/look",
            "method": "GET",
            "headers": {"authorization": f"Bearer {KEYS[2]}"},
        },
    },
]
# stored as it is; compressed; in a file beside the database
PADDING = ["", "x" * 5_000, "".join(Random(1).choices("0123456789abcdef", k=900_000))]


@dataclass(frozen=True)
class Kept:
    """A server with an agent that has secrets, and the record it is kept in."""

    served: Served
    agent_id: str
    bodies: dict[tuple[str, str], bytes]


def with_key(data_dir: Path) -> dict[tuple[str, str], bytes]:
    """Return every record of the database, read as the server reads it, that has one of the keys anywhere."""
    with closing(sqlite3.connect(data_dir / "turnstone.db")) as database:
        keys = database.execute("SELECT pk, sk FROM items").fetchall()
    found = {}
    with closing(SqliteRangeStore(data_dir / "turnstone.db")) as store:
        whole = OversizeStore(store, FileBlobStore(data_dir / "blobs"))
        for pk, sk in keys:
            record = whole.get(Key(pk, sk))
            assert record is not None
            text = record.body + json.dumps(dict(record.attributes)).encode() + f"{pk} {sk}".encode()
            if any(key.encode() in text for key in KEYS):
                found[pk, sk] = record.body
    return found


@pytest.fixture(params=PADDING, ids=["small", "compressed", "in a file"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Kept]:
    caplog.set_level(logging.DEBUG)
    with served(tmp_path) as serving:
        config = {"model": "offline", "instructions": request.param, "tools": TOOLS}
        body = json.dumps({"agent_config": config}).encode()
        creation = Raw("POST", b"/v1/agents", (body,), ((b"idempotency-key", b"k"),))
        agent_id = serving.client.send(creation).json()["agent_id"]
        assert serving.client.send(creation).json() == {"agent_id": agent_id}
        assert any((tmp_path / "blobs").glob("*/*")) == (request.param == PADDING[-1])
        yield Kept(serving, agent_id, with_key(tmp_path))


def test_keys_are_in_the_private_line_of_their_agents_record_only(kept: Kept) -> None:
    key = agent_key("local", kept.agent_id)
    ((record_key, body),) = kept.bodies.items()
    assert record_key == (key.pk, key.sk)
    private, _, wire = body.partition(b"\n")
    assert [private.count(key.encode()) for key in KEYS] == [1, 1, 1]
    assert [wire.count(key.encode()) for key in KEYS] == [0, 0, 0]


def test_no_answer_and_no_line_of_the_log_has_a_key(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    client, agent = kept.served.client, f"/v1/agents/{kept.agent_id}"
    session = client.post(f"{agent}/session", {"session_name": "s"}).json()["session_id"]
    answers = [
        client.get(agent),
        client.get("/v1/agents"),
        client.post(f"{agent}/session/{session}/turn", {"messages": [{"role": "user", "content": "hi"}]}),
        client.post(
            f"{agent}/session/{session}/turn", {"messages": [{"role": "user", "content": "hi"}], "stream": True}
        ),
        client.get(f"{agent}/session/{session}"),
        client.post("/v1/agents", {"agent_config": {"model": "m", "instructions": 1, "tools": TOOLS}}),
        client.post("/v1/agents", {"agent_config": {"model": "m", "instructions": "", "tools": [TOOLS[0], TOOLS[0]]}}),
    ]
    assert {answer.status for answer in answers} == {200, 400}
    shown = b"".join(answer.body for answer in answers).decode() + repr(answers) + caplog.text
    assert not [key for key in KEYS if key in shown]
    assert len(with_key(kept.served.data_dir)) == 1


def test_a_reader_sees_masks_and_the_server_finds_the_keys(kept: Kept) -> None:
    config = kept.served.client.get(f"/v1/agents/{kept.agent_id}").json()["agent_config"]
    assert [tool.get("api_key") for tool in config["tools"]] == [MASK, MASK, None]
    assert config["tools"][2]["remote_execution"]["headers"] == {"authorization": MASK}
    with closing(SqliteRangeStore(kept.served.data_dir / "turnstone.db")) as store:
        agents = AgentStore(OversizeStore(store, FileBlobStore(kept.served.data_dir / "blobs")))
        brave, wolfram, function = agents.get("local", kept.agent_id).agent.agent_config.tools
    assert [brave.api_key.get_secret_value(), wolfram.api_key.get_secret_value()] == list(KEYS[:2])
    assert function.remote_execution.headers == {"authorization": SecretStr(f"Bearer {KEYS[2]}")}


def test_an_agent_that_was_read_is_refused_with_masks_instead_of_keys(kept: Kept) -> None:
    config = kept.served.client.get(f"/v1/agents/{kept.agent_id}").json()["agent_config"]
    refused = kept.served.client.post("/v1/agents", {"agent_config": config})
    assert refused.status == 400
    problems = refused.json()["error"]["detail"]["errors"]
    assert problems[0]["loc"] == ["agent_config", "tools", 0, "api_key"]
    assert "stands for a secret in answers" in problems[0]["msg"]


def test_an_unreadable_agent_is_logged_without_its_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with served(tmp_path) as serving:
        config = {"model": "offline", "instructions": "", "tools": TOOLS}
        agent = f"/v1/agents/{serving.client.post('/v1/agents', {'agent_config': config}).json()['agent_id']}"
        session = serving.client.post(f"{agent}/session", {"session_name": "s"}).json()["session_id"]
        with closing(SqliteRangeStore(tmp_path / "turnstone.db")) as store:
            whole = OversizeStore(store, FileBlobStore(tmp_path / "blobs"))
            found = whole.get(agent_key("local", agent.rpartition("/")[2]))
            assert found is not None
            broken = found.body.replace(b'"engine":"brave"', b'"engine":"other"')
            whole.write([Put(found.key, broken, found.attributes, (RevIs(found.rev),))])
        turn = {"messages": [{"role": "user", "content": "x"}]}
        assert serving.client.post(f"{agent}/session/{session}/turn", turn).status == 500
    assert "ValidationError" in caplog.text
    assert not [key for key in KEYS if key in caplog.text]
