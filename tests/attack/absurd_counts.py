"""A model server that lies about numbers: tokens, list indexes, times to wait."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import httpx

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_answers import DONE, Answer, HttpAnswer, call_answer, chunk, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ServerProcess

DAY_TOKENS = 100_000
LONG = "9" * 311
USAGES: Mapping[str, str] = {
    "whole": f'{{"prompt_tokens": {LONG}, "completion_tokens": {LONG}, "total_tokens": {LONG}}}',
    "prompt": f'{{"prompt_tokens": {LONG}, "completion_tokens": 1}}',
    "above": '{"prompt_tokens": 1000000001, "completion_tokens": 1}',
    "negative": '{"prompt_tokens": -5, "completion_tokens": -1000000000000}',
    "float": '{"prompt_tokens": 1e308, "completion_tokens": 1e308}',
    "infinity": '{"prompt_tokens": 1e999, "completion_tokens": Infinity}',
    "nan": '{"prompt_tokens": NaN, "completion_tokens": NaN}',
    "true": '{"prompt_tokens": true, "completion_tokens": true}',
    "text": '{"prompt_tokens": "7", "completion_tokens": [7]}',
}
EMBEDDINGS: Mapping[str, str] = {
    "index": '{"data": [{"index": 1e999, "embedding": [1]}]}',
    "vector": f'{{"data": [{{"index": 0, "embedding": [{LONG}]}}]}}',
    "dimensions": json.dumps({"data": [{"index": 0, "embedding": [0] * 1_000_000}]}),
}
WAITS = ("9" * 5_000, "Fri, 31 Dec 99999999999999999999 23:59:59 GMT")
CHAT = "/v1/openai/v1/chat/completions"
SOON_S = 10.0


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Report every number wrongly, and check the tenant's answers and charges."""
    with (
        ModelServer(lying_model, embed=lying_embeddings) as model,
        ServerProcess(folder, model_url=model.url, max_day_tokens=DAY_TOKENS) as server,
        PlainClient(server.url, timeout_s=SOON_S) as client,
    ):
        for name in USAGES:
            yield charged(client, name)
        yield priced(client)
        answer = client.post(CHAT, {"model": "arguments", **turn_body("go"), "tools": [TOOL]})
        yield valid("tool arguments of 1e999", answer, 200)
        answer = client.post(CHAT, {"model": "indexes", **turn_body("go"), "tools": [TOOL]})
        yield valid("fragments of calls and choices at 10^9 and NaN", answer, 200)
        for name in EMBEDDINGS:
            answer = client.post("/v1/openai/v1/embeddings", {"model": name, "input": "hello"})
            yield valid(f"embeddings with an absurd {name}", answer, 502)
        for wait in WAITS:
            began = time.monotonic()
            answer = client.post(f"{client.open_session(f'wait {wait}')}/turn", turn_body("go"))
            yield valid(f"retry-after: {wait[:24]}…, {time.monotonic() - began:.1f} s", answer, 502)


def charged(client: PlainClient, name: str) -> Finding:
    """Return the finding that a turn with such a usage ends well, and is charged as one of a silent provider."""
    prices = {"prices": {"input": 3.0, "output": 15.0}}
    client.post("/v1/models", {"model_id": name, "metadata": prices})
    session = client.open_session(name)
    turn = client.post(f"{session}/turn", turn_body("hello"))
    agent_id = session.split("/")[3]
    report = client.fetch(f"/v1/usage?agent_id={agent_id}")
    status = f"turn {turn.status_code}, usage {report.status_code}"
    if report.status_code != 200:
        return Finding(f"usage: {name}", status, "200, 200", is_met=False)
    total = strict(report)["total"]
    is_met = turn.status_code == 200 and total["estimated_inferences"] == 1 and 0 < total["total_tokens"] < DAY_TOKENS
    measured = f"{status}, {min(total['total_tokens'], 10**18):.3g} tokens"
    return Finding(f"usage: {name}", measured, f"200, 200, an estimate below {DAY_TOKENS}", is_met)


def priced(client: PlainClient) -> Finding:
    """Return the finding that a price beyond all reason makes a cost that is unknown, and not an error."""
    prices = {"prices": {"input": 1.7e308, "output": 1.7e308}}
    client.post("/v1/models", {"model_id": "dear", "provider_model_id": "text", "metadata": prices})
    session = client.open_session("dear")
    client.post(f"{session}/turn", turn_body("hello"))
    return valid("a price of 1.7e308", client.fetch("/v1/usage"), 200)


def valid(what: str, answer: httpx.Response, status: int) -> Finding:
    """Return the finding that the answer has this status and is JSON that every client can read."""
    try:
        strict(answer)
    except ValueError as wrong:
        return Finding(what, f"{answer.status_code}, {wrong}", f"{status}, valid JSON", is_met=False)
    return Finding(what, str(answer.status_code), f"{status}, valid JSON", answer.status_code == status)


def strict(answer: httpx.Response) -> Any:
    """Return the JSON of an answer, of a tool call's arguments too. Raises ValueError if it is none."""
    body = json.loads(answer.text, parse_constant=refuse)
    for choice in body.get("choices", ()) if isinstance(body, dict) else ():
        for call in choice["message"].get("tool_calls") or ():
            json.loads(call["function"]["arguments"], parse_constant=refuse)
    return body


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def lying_model(body: Mapping[str, Any]) -> Answer:
    name = body["model"]
    if name.startswith("wait "):
        return HttpAnswer(503, {"error": {"message": "busy"}}, {"Retry-After": name.removeprefix("wait ")})
    if name == "arguments":
        return call_answer(("look", '{"at": 1e999}'))
    if name == "indexes":
        call = b'{"index": 1000000000, "id": "c", "function": {"name": "look", "arguments": "{}"}}'
        choice = b'{"index": 1e999, "delta": {"tool_calls": [' + call + b', {"index": NaN}]}, "finish_reason": null}'
        return (b'data: {"choices": [' + choice + b"]}\n\n", chunk({}, "tool_calls"), DONE)
    usage = f'data: {{"choices": [], "usage": {USAGES[name]}}}\n\n'
    return (text_chunk("hello"), chunk({}, "stop"), usage.encode(), DONE)


def lying_embeddings(body: Mapping[str, Any]) -> Answer:
    return HttpAnswer(200, EMBEDDINGS[body["model"]].encode())


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ATTACK = Attack("a model's absurd counts", run)
