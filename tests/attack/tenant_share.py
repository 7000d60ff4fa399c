"""A tenant that takes all it can get of a server, while another tenant needs a little of it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_answers import Answer, Pause, built_in_answer, embeddings_answer, ending, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.servers import HOST, ROOT, ServerProcess, server_environment

SLOTS = 96  # three quarters for the greedy tenant, 18 for what the waiting one has under way, the rest is free
TURNS = 16
TAKEN_UP_S = (
    0.6  # a route begins a thread every 50 ms while its work is slow; a bar holds whether it has begun all or not
)
HANGS_S = 60.0  # longer than any of this lasts
SOON_S = 3.0
SHARE = "share of this tenant"
BAR = f"200, at most {SOON_S:g} s"


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Attack the threads of each route that waits for others, then those of shields, then the slots of turns."""
    requests = 60 if full else 24
    keys = [made_key(folder / "data", tenant) for tenant in ("greedy", "waiting", "modest")]
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer(hanging_model, embed=hanging_embeddings))
        silent = stack.enter_context(silent_server())
        settings = {
            "model_url": model.url,
            "auth": "api_keys",
            "max_running_turns": SLOTS,
            "place_wait_seconds": 1,
            "fetch_allow": f"{HOST}:{silent}",
        }
        server = stack.enter_context(ServerProcess(folder, authorization=f"Bearer {keys[0]}", **settings))
        greedy, waiting, modest = (stack.enter_context(Tenant(server.port, key)) for key in keys)
        prepare(waiting, silent)
        modest.call("POST", "/v1/shields", {"shield_id": "words", "provider_id": "pattern", "params": WORDS})
        session = modest.session("instant")
        for name, one in routes(waiting, modest, session).items():
            with waiting.sending(*one.sent, times=requests):
                yield answered(f"{requests} requests that wait: {name}", one.send)
        yield from threads_of_shields(waiting, modest)
        yield from slots_of_turns(greedy, modest, session)


def threads_of_shields(greedy: Tenant, modest: Tenant) -> Iterator[Finding]:
    """Run one turn with more shields than there are threads for them."""
    path = greedy.session("instant", input_shields=["slow"] * 100)
    judged = {"messages": [{"role": "user", "content": "hello"}], "params": {}, "shield_id": "words"}
    with greedy.sending("POST", f"{path}/turn", turn_body("a story"), times=1):
        yield answered("100 shields of one turn", lambda: modest.call("POST", "/v1/safety/run-shield", judged))


def slots_of_turns(greedy: Tenant, modest: Tenant, session: str) -> Iterator[Finding]:
    """Fill the slots with turns and direct questions of one tenant, then send both as another tenant."""
    sessions = [greedy.session("hang") for _ in range(TURNS)]
    with ExitStack() as stack:
        for path in sessions:
            stack.enter_context(greedy.sending("POST", f"{path}/turn", turn_body("a story"), times=1))
        stack.enter_context(greedy.sending("POST", CHAT, chat("hang"), times=SLOTS - TURNS))
        refused = greedy.refusal(lambda: greedy.call("POST", CHAT, chat("instant")))
        is_met = refused.status_code == 503 and "retry-after" in refused.headers and SHARE in refused.text
        measured = f"{refused.status_code}, {refused.text[:60]}"
        yield Finding(f"{SLOTS} turns and questions of one tenant", measured, f"503, {SHARE}", is_met)
        yield answered(
            "another tenant's turn meanwhile", lambda: modest.call("POST", f"{session}/turn", turn_body("hello"))
        )
        yield answered("another tenant's question meanwhile", lambda: modest.call("POST", CHAT, chat("instant")))
        embed = {"model": "instant", "input": "hello"}
        refused = greedy.call("POST", "/v1/openai/v1/embeddings", embed)
        yield Finding("the tenant's own embeddings", str(refused.status_code), "503", refused.status_code == 503)


class Waiting:
    """A request that waits for another server, and a request of another tenant to the same route."""

    def __init__(self, send: Callable[[], httpx.Response], *sent: Any) -> None:
        self.send = send
        self.sent = sent


def routes(greedy: Tenant, modest: Tenant, session: str) -> Mapping[str, Waiting]:
    """Return a pair of requests for each route that waits for models and servers of others."""
    invoke, run_shield, list_tools = "/v1/tool-runtime/invoke", "/v1/safety/run-shield", "/v1/tool-runtime/list-tools"
    clock = {"tool_name": "current_time", "kwargs": {}}
    judged = {"messages": [{"role": "user", "content": "hello"}], "params": {}}
    embed = {"model": "instant", "input": "hello"}
    embeddings = "/v1/openai/v1/embeddings"
    return {
        "tool-runtime/invoke": Waiting(
            lambda: modest.call("POST", invoke, clock),
            "POST",
            invoke,
            {"tool_name": "mcp::silent/anything", "kwargs": {}},
        ),
        "tool-runtime/list-tools": Waiting(
            lambda: modest.call("GET", list_tools), "GET", f"{list_tools}?tool_group_id=mcp::silent"
        ),
        "turns that look up tools": Waiting(
            lambda: modest.call("POST", f"{session}/turn", turn_body("hello")),
            "POST",
            f"{greedy.session('instant', toolgroups=['mcp::silent'])}/turn",
            turn_body("a story"),
        ),
        "safety/run-shield": Waiting(
            lambda: modest.call("POST", run_shield, {**judged, "shield_id": "words"}),
            "POST",
            run_shield,
            {**judged, "shield_id": "slow"},
        ),
        "embeddings": Waiting(
            lambda: modest.call("POST", embeddings, embed), "POST", embeddings, {**embed, "model": "hang"}
        ),
    }


def answered(what: str, send: Callable[[], httpx.Response]) -> Finding:
    """Return the finding that a request was answered with 200 and soon."""
    began = time.monotonic()
    try:
        status = str(send().status_code)
    except httpx.TimeoutException:
        status = "no answer"
    took_s = time.monotonic() - began
    return Finding(what, f"{status} after {took_s:.1f} s", BAR, status == "200" and took_s <= SOON_S)


def prepare(greedy: Tenant, silent_port: int) -> None:
    """Register the servers on which the greedy tenant's requests wait."""
    endpoint = {"uri": f"http://{HOST}:{silent_port}/mcp"}
    group = {"toolgroup_id": "mcp::silent", "provider_id": "model-context-protocol", "mcp_endpoint": endpoint}
    greedy.call("POST", "/v1/toolgroups", group)
    guard = {"shield_id": "slow", "provider_id": "llama-guard", "provider_shield_id": "hang"}
    greedy.call("POST", "/v1/shields", guard)


class Tenant:
    """A client of one tenant, while the `with` block lasts."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._headers = {"authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=f"http://{HOST}:{port}", headers=self._headers, timeout=2 * SOON_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Return the answer; its body is read. Raises httpx.TimeoutException after twice the time of a bar."""
        return self._http.request(method, path, json=body)

    def session(self, model: str, **config: Any) -> str:
        """Return the path of a new session."""
        agent = self.call("POST", "/v1/agents", {"agent_config": {"model": model, "instructions": "", **config}})
        path = f"/v1/agents/{agent.json()['agent_id']}/session"
        return f"{path}/{self.call('POST', path, {'session_name': 's'}).json()['session_id']}"

    @contextmanager
    def sending(self, method: str, path: str, body: Any = None, *, times: int) -> Iterator[None]:
        """Send a request so often, over a connection each, and read no answer within the block."""
        sent = b"" if body is None else json.dumps({**body, "stream": True} if "messages" in body else body).encode()
        headers = {**self._headers, "host": HOST, "content-type": "application/json", "content-length": str(len(sent))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with ExitStack() as stack:
            for _ in range(times):
                line = stack.enter_context(socket.create_connection((HOST, self._port)))
                line.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + sent)
            time.sleep(TAKEN_UP_S)
            yield

    def refusal(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        """Return the first answer that is no 200, or the last after a while."""
        deadline = time.monotonic() + SOON_S
        while (answer := send()).status_code == 200 and time.monotonic() < deadline:
            pass
        return answer


def hanging_model(body: Mapping[str, Any]) -> Answer:
    if body["model"] != "hang":
        return built_in_answer(body)
    return (text_chunk("a word"), Pause(HANGS_S), *ending("stop"))


def hanging_embeddings(body: Mapping[str, Any]) -> Answer:
    return (Pause(HANGS_S),) if body["model"] == "hang" else embeddings_answer(body)


@contextmanager
def silent_server() -> Iterator[int]:
    """Give the port of a server that takes every connection and never answers."""
    with socket.create_server((HOST, 0), backlog=256) as listener:
        yield listener.getsockname()[1]


def made_key(data_dir: Path, tenant: str) -> str:
    """Return a new key of the tenant."""
    command = [sys.executable, "-m", "turnstone", "keys", "create", "ann", "--tenant", tenant]
    environment = server_environment({"data_dir": data_dir})
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return made.stdout.strip()


def turn_body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def chat(model: str) -> dict[str, Any]:
    return {"model": model, **turn_body("hello")}


CHAT = "/v1/openai/v1/chat/completions"
WORDS = {"words": ["never"]}
ATTACK = Attack("tenant's share", run)
