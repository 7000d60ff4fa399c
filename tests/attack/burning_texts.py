"""Texts that make a careless reader burn processor time: a long text for a shield of many words, answers of a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_answers import DONE, call_chunk, chunk, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import Json, PlainClient
from tests.support.server.servers import ServerProcess

MOST_S = 6.0
WORDS = [f"{'a' * (number % 190)}{number}" for number in range(2_000)]
NESTED = '{"type":' * 50 + "["
CONFIG = {"toolgroups": ["builtin::clock"], "tool_prompt_format": "json"}
MODEL = {"model_id": "fake", "metadata": {"tools": "prompted"}}  # the server parses calls out of its text


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Send each text once; its cost is the processor time of the server."""
    size = 1_000_000 if full else 200_000

    def answer(request: Mapping[str, Any]) -> list[Any]:
        return answer_of(str(request["messages"][-1]["content"]), size)

    with (
        ModelServer(answer) as model,
        ServerProcess(folder, model_url=model.url) as server,
        PlainClient(server.url, timeout_s=60) as client,
    ):
        shield = {"shield_id": "words", "provider_id": "pattern", "params": {"words": WORDS}}
        assert client.post("/v1/shields", shield).status_code == 200
        for text in ("a", "a ", "\ufdfa"):
            judged = {"shield_id": "words", "messages": [{"role": "user", "content": text * (size // len(text))}]}
            body = {**judged, "params": {}}
            request = "/v1/safety/run-shield", body
            yield measured(f"{size:,} of {text!r}, 2,000 words", server, client, request)
        assert client.post("/v1/models", MODEL).status_code == 200
        for name in ("<", "{", "`", "nested", "fragments"):
            path = client.open_session(model=MODEL["model_id"], **CONFIG)
            body = {"messages": [{"role": "user", "content": name}], "stream": False}
            yield measured(f"{size:,} of {name!r} answered", server, client, (f"{path}/turn", body))


def answer_of(name: str, size: int) -> list[Any]:
    if name == "fragments":
        pieces = [call_chunk(0, "f", '{"a":{}', "c"), *[call_chunk(0, "f", ',"a":{}', "c")] * (size // 60)]
    else:
        text = NESTED + "1," * (size // 2) if name == "nested" else name * size
        pieces = [text_chunk(text[start : start + 4_000]) for start in range(0, size, 4_000)]
    return [*pieces, chunk({}, "stop"), DONE]


def measured(what: str, server: ServerProcess, client: PlainClient, request: tuple[str, Json]) -> Finding:
    before = processor_s(server.pid)
    status = client.post(*request).status_code
    took_s = processor_s(server.pid) - before
    is_met = status == 200 and took_s <= MOST_S
    return Finding(what, f"{status}, {took_s:.1f} s of processor", f"200, {MOST_S:g} s", is_met)


def processor_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


ATTACK = Attack("texts that burn", run)
