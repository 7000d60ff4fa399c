"""Turns that would never end: of agents that request 10^12 inferences, and of models that never stop talking."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_answers import Answer, Pause, call_chunk, chunk, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import Json, PlainClient, turn_body
from tests.support.server.servers import ServerProcess

MOST_INFERENCES = 12
MOST_SECONDS = 1.0
LEASE_S = 0.6
SOON_S = 4.0
CLOCK = {"toolgroups": ["builtin::clock"]}
KEEPALIVE = b": still there\n\n"


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Request too many inferences, then use models that call tools, talk or keep their connection alive forever."""
    settings = {"max_infer_iters": MOST_INFERENCES, "max_turn_seconds": MOST_SECONDS, "lease_seconds": LEASE_S}
    with (
        ModelServer(endless_model) as model,
        ServerProcess(folder, model_url=model.url, **settings) as server,
        PlainClient(server.url) as client,
    ):
        config = {"model": "calls", "instructions": "", "max_infer_iters": 10**12}
        answer = client.post("/v1/agents", {"agent_config": config})
        is_met = answer.status_code == 400 and "max_infer_iters" in answer.text and str(MOST_INFERENCES) in answer.text
        yield Finding("an agent of 10^12 inferences a turn", f"{answer.status_code}", "400, names the bound", is_met)

        session = client.open_session("calls", max_infer_iters=MOST_INFERENCES, **CLOCK)
        answer = client.post(f"{session}/turn", {**turn_body("go"), "max_infer_iters": 10**12})
        yield Finding("a turn of 10^12 inferences", f"{answer.status_code}", "400", answer.status_code == 400)
        began = len(model.requests)
        client.post(f"{session}/turn", turn_body("go"))
        inferences = len(model.requests) - began
        bar = f"asked {MOST_INFERENCES} times at most"
        yield Finding(
            "a model that calls tools for ever", f"asked {inferences} times", bar, inferences <= MOST_INFERENCES
        )

        names = ("talks", "keeps-alive", "trickles-arguments") if full else ("talks", "keeps-alive")
        for name in names:
            yield ended(client, name)


def ended(client: PlainClient, model: str) -> Finding:
    """Return the finding that a turn of a model which never ends its answer ends by its running time."""
    session = client.open_session(model)
    began = time.monotonic()
    answer = client.post(f"{session}/turn", turn_body("go"))
    took_s = time.monotonic() - began
    detail: Json = answer.json()
    is_met = answer.status_code == 429 and "TURNSTONE_MAX_TURN_SECONDS" in str(detail) and took_s <= SOON_S
    measured = f"{answer.status_code} after {took_s:.1f} s"
    return Finding(f"a model that {model} for ever", measured, f"429, at most {SOON_S:g} s", is_met)


def endless_model(body: Mapping[str, Any]) -> Answer:
    match body["model"]:
        case "calls":
            return (call_chunk(0, "current_time", "{}", f"call-{len(body['messages'])}"), chunk({}, "tool_calls"))
        case "talks":
            return chain.from_iterable(repeat((text_chunk("word "), Pause(0.05))))
        case "keeps-alive":
            return chain.from_iterable(repeat((KEEPALIVE, Pause(0.05))))
        case _:
            return chain.from_iterable(repeat((call_chunk(0, "current_time", " "), Pause(0.05))))


ATTACK = Attack("turns without end", run)
