"""Replay of requests that were recorded once from real clients.

A request refers to an id from an earlier answer by the number of that answer and the position in its body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.fakes.models.openai_answers import built_in_answer, listed
from tests.golden.models import adding, by_fields, continues, keyed, may_be_broken, reads_calls_in_text, tool_loop
from tests.golden.normal import TOKEN, tokens_in
from tests.golden.play import STORES, Scenario
from tests.golden.world import Exchange, World
from tests.support.models.worded_model import LISTED, answer_by_words
from tests.support.server.asgi_client import Raw

FOLDER = Path(__file__).parent / "clients"
VARIANT = re.compile(r"[.~]")  # separates the variant and the client from a script's name
SLOT = re.compile(r"\{\{(\d+)\.(\d+)\}\}")
KEY, MCP = "{{key}}", "{{mcp}}"
MCP_KEY = "Bearer key-of-the-caller"
SENT = ("accept", "content-type", "authorization", "user-agent", "idempotency-key")
SENT_PREFIXES = ("x-llamastack-", "x-stainless-retry", "x-stainless-read")
TELLING = (
    "authorization",
    "idempotency-key",
    "x-llamastack-provider-data",
)  # all other headers depend on the version only
# prefixes of the same routes
ALIASES = (
    ("/v1alpha/", "/v1/"),
    ("/v1/openai/v1/chat/", "/v1/chat/"),
    ("/v1/openai/v1/completions", "/v1/completions"),
)
Json = dict[str, Any]
SETUP_FILE = """
default_provider = "offline"
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


@dataclass(frozen=True)
class SetUp:
    """The API key and the URL of the MCP server for recorded requests, empty if there is none."""

    key: str = ""
    mcp: str = ""


def of_the_table(world: World) -> SetUp:
    """Start the servers of the table of clients."""
    mcp = world.mcp(adding)
    world.serve(model_url=world.model(answer_by_words, listed=LISTED), auth="api_keys", fetch_allow=world.allowed(mcp))
    world.key("ann", "ann", roles=("admin",))
    return SetUp(world.keys["ann"], mcp)


def offline(world: World) -> SetUp:
    world.serve(model_url="offline")
    return SetUp()


def over_models(answer: Any = built_in_answer, **more: Any) -> Callable[[World], SetUp]:
    def set_up(world: World) -> SetUp:
        world.serve(model_url=world.model(answer, **more))
        return SetUp()

    return set_up


def beside_mcp(world: World) -> SetUp:
    mcp = world.mcp(keyed(MCP_KEY))
    world.serve(model_url="offline", fetch_allow=world.allowed(mcp))
    return SetUp(mcp=mcp)


def from_a_file(world: World) -> SetUp:
    world.serve(config=SETUP_FILE)
    return SetUp()


SET_UPS: Mapping[str, Callable[[World], SetUp]] = {
    "agents_resources": offline,
    "alpha_turn": over_models(tool_loop),
    "completions": over_models(complete=continues),
    "every_method": offline,
    "agent_loop_offline": offline,
    "agent_loop": over_models(),
    "guarded_tool": over_models(),
    "mcp_tools": beside_mcp,
    "openai_completions": over_models(complete=continues),
    "openai_fields": over_models(by_fields, listed=listed("calls", "meta-llama/big")),
    "openai_stored": over_models(),
    "react_agent": over_models(reads_calls_in_text),
    "schema_tool": over_models(),
    "set_up": from_a_file,
    "shields": over_models(),
    "stored_completions": over_models(),
    "unanswered_turns": over_models(may_be_broken),
}


TABLE_TEST = "tests/e2e/clients/test_client_table.py"
SCRIPT_TESTS: Mapping[str, str] = {
    "agent_loop": "clients/test_official_clients.py",
    "agent_loop_offline": "clients/test_official_clients.py",
    "agents_resources": "clients/test_agents_resources.py",
    "alpha_turn": "clients/test_2024_clients.py",
    "completions": "clients/test_completions_clients.py",
    "every_method": "clients/test_every_method.py",
    "guarded_tool": "clients/test_official_clients.py",
    "mcp_tools": "tools/test_mcp_tools.py",
    "openai_completions": "clients/test_completions_clients.py",
    "openai_fields": "clients/test_openai_fields.py",
    "openai_stored": "clients/test_completions_clients.py",
    "react_agent": "clients/test_calls_in_text.py",
    "schema_tool": "tools/test_tool_schemas.py",
    "set_up": "clients/test_set_up_scripts.py",
    "shields": "clients/test_official_clients.py",
    "stored_completions": "clients/test_completions_clients.py",
    "unanswered_turns": "turns/test_unanswered_turns.py",
}


def test_of(group: str, name: str) -> str:
    """Return the test that runs the recorded client."""
    return f"tests/e2e/{SCRIPT_TESTS[VARIANT.split(name)[0]]}" if group == "scripts" else TABLE_TEST


def set_up_of(group: str, name: str) -> Callable[[World], SetUp]:
    return of_the_table if group != "scripts" else SET_UPS[VARIANT.split(name)[0]]


def scenarios() -> Iterator[Scenario]:
    """Yield a scenario for each distinct sequence of requests; equal sequences of several clients are one scenario."""
    for file in sorted(FOLDER.glob("*.json")):
        for name, values in json.loads(file.read_text()).items():
            stands_for = (test_of(file.stem, name), *(f"client {client}" for client in values["clients"]))
            act = partial(replay, file.stem, name, values["requests"], values["headers"])
            # these hardly reach the store, or store the same as the first variant
            is_stateless = name.startswith("every_method") or file.stem not in ("llama_stack", "scripts")
            only = STORES[:1] if is_stateless or "~" in name else STORES
            yield Scenario(f"clients/{file.stem}/{name}", act, stands_for, only=only)


def replay(group: str, name: str, requests: Sequence[Json], headers: Json, world: World) -> None:
    """Send the requests in order, with ids from the answers before."""
    set_up = set_up_of(group, name)(world)
    for request in requests:
        values, common = (resolved(each, world.exchanges, set_up) for each in (request, headers))
        world.finish(world.begin_raw(raw_of(values, common), is_brief=True))


def resolved(recorded: Json, exchanges: Sequence[Exchange], set_up: SetUp) -> Json:
    """Return recorded fields with placeholders replaced by values from the answers."""
    text = json.dumps(recorded, ensure_ascii=False)
    answers = [each.answer.body for each in exchanges if each.answer is not None]

    def token(slot: re.Match[str]) -> str:
        return tokens_in(answers[int(slot[1]) - 1].decode("utf-8", "replace"))[int(slot[2]) - 1]

    values = SLOT.sub(token, text)
    found: Json = json.loads(values.replace(KEY, set_up.key).replace(MCP, set_up.mcp))
    return found


def recorded(exchanges: Sequence[Exchange], set_up: SetUp) -> list[Json]:
    """Return the requests of these exchanges, ids replaced by placeholders."""
    slots: dict[str, str] = {}
    requests = []
    answered = [exchange for exchange in exchanges if exchange.answer is not None]
    for number, exchange in enumerate(answered, 1):
        text = json.dumps(request_fields(exchange.request), ensure_ascii=False)
        for actual, stands in ((set_up.key, KEY), (set_up.mcp, MCP)):
            text = text.replace(actual, stands) if actual else text
        requests.append(json.loads(TOKEN.sub(lambda found: slots.get(found[0], found[0]), text)))
        assert exchange.answer is not None
        for position, token in enumerate(tokens_in(exchange.answer.body.decode("utf-8", "replace")), 1):
            slots.setdefault(token, f"{{{{{number}.{position}}}}}")
    return requests


def request_fields(request: Raw) -> Json:
    """Return the recorded fields of a request."""
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in request.headers}
    headers_kept = {name: text for name, text in headers.items() if name in SENT or name.startswith(SENT_PREFIXES)}
    body = b"".join(request.body).decode()
    if not body:
        headers_kept.pop("content-type", None)  # which some clients send all the same
    return {"method": request.method, "target": request.target.decode(), "headers": headers_kept, "body": body}


def raw_of(values: Json, common: Json) -> Raw:
    headers = {**common, **values["headers"]}
    named = tuple((name.encode(), value.encode("latin-1")) for name, value in headers.items())
    return Raw(values["method"], values["target"].encode(), (values["body"].encode(),), named)


def sameness(request: Json, *, aliases: bool = True) -> str:
    """Return a text that is equal for equivalent requests of different client versions, languages and prefixes."""
    headers = {name: text for name, text in request["headers"].items() if name in TELLING}
    target = request["target"]
    for alias, usual in ALIASES if aliases else ():
        target = usual + target.removeprefix(alias) if target.startswith(alias) else target
    try:
        body = json.loads(request["body"] or "null")
    except ValueError:
        body = request["body"]
    return json.dumps([request["method"], target, headers, body])
