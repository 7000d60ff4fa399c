"""Record the requests of real clients: `python -m tests.golden --capture`.

Each row of the table of clients, and each script, runs against a new server in this process, behind a proxy on loopback
that passes one request at a time. Needed after changes to clients or rows only; transcripts need no client.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from tests.golden.play import left_in
from tests.golden.traffic import FOLDER, MCP_KEY, Json, SetUp, recorded, sameness, set_up_of
from tests.golden.world import World
from tests.integration.crash_matrix.databases import SqliteDatabase
from tests.support.clients.client_columns import COLUMNS, Column, outcomes
from tests.support.clients.client_script import run_script
from tests.support.clients.client_table import ROWS
from tests.support.server.asgi_client import Answered, Raw
from tests.support.server.servers import HOST

RECORDED_MCP = b"http://127.0.0.1:10000/mcp"  # a port of as many digits as the real one
# rows with concurrent requests, whose order varies
OVERLAPPING = frozenset({"second_turn_while_one_runs"})
# rows in which versions differ by the words of a prompt only
WORDED = frozenset({"react_agent", "react_agent_in_json", "react_agent_with_a_server_tool"})
SCHEMA = {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}, "required": ["city"]}
TOOL = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "input_schema": {**SCHEMA, "$defs": {"city": {"type": "string", "enum": ["Oslo", "Bergen"]}}},
    "output_schema": {"type": "string"},
}
LLAMA_STACK = ("0.2.12", "0.2.23", "0.3.5")
AGENT_CLASSES = ("0.2.12", "0.2.23")
# name: script, clients, and arguments after the URL; a dot in a name separates the variant
SCRIPTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "agents_resources": ("agents_resources", ("0.3.5",), ("",)),
    "alpha_turn": ("alpha_turn", ("0.0.63",), ()),
    "completions": ("completions", LLAMA_STACK, ("m",)),
    "every_method": ("every_method", ("0.0.63", *LLAMA_STACK), ("llama_stack_client",)),
    "every_method.openai": ("every_method", ("openai",), ("openai",)),
    "agent_loop_offline": ("agent_loop", AGENT_CLASSES, ("offline", "please add(a=3, b=4)")),
    "agent_loop": ("agent_loop", AGENT_CLASSES, ("tool:add", "How much is it?")),
    "guarded_tool": ("guarded_tool", AGENT_CLASSES, ()),
    "mcp_tools": ("mcp_tools", LLAMA_STACK, ("MCP", MCP_KEY)),
    "openai_completions": ("openai_completions", ("openai",), ("m", "stay")),
    "openai_fields": ("openai_fields", ("openai",), ("calls",)),
    "openai_stored": ("openai_stored", ("openai",), ("instant",)),
    "openai_stored.below_openai": ("openai_stored", ("openai",), ("instant",)),
    "react_agent.streaming": ("react_agent", AGENT_CLASSES, ("streaming",)),
    "react_agent.whole": ("react_agent", AGENT_CLASSES, ("whole",)),
    "schema_tool": ("schema_tool", ("0.3.5",), (json.dumps(TOOL),)),
    "set_up": ("set_up", LLAMA_STACK, ()),
    "shields": ("shields", AGENT_CLASSES, ()),
    "stored_completions": ("stored_completions", LLAMA_STACK, ("instant",)),
    "unanswered_turns": ("unanswered_turns", AGENT_CLASSES, ()),
}


class Proxy:
    """A loopback proxy in front of the current world."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.mcp_url = ""
        self._one_at_a_time = threading.Lock()
        config = uvicorn.Config(self._answer, host=HOST, port=0, log_level="error", lifespan="off", interface="asgi3")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        headers_sent = tuple((name, self._to_world(value)) for name, value in scope["headers"])
        request = Raw(scope["method"], target, (self._to_world(body),), headers_sent)
        answer = await asyncio.to_thread(self._pass_on, request)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _to_world(self, text: bytes) -> bytes:
        """Replace the MCP URL given to clients by that of the current world."""
        return text.replace(RECORDED_MCP, self.mcp_url.encode()) if self.mcp_url else text

    def _pass_on(self, request: Raw) -> Answered:
        assert self.world is not None
        with self._one_at_a_time:
            return self.world.finish(self.world.begin_raw(request))


@contextmanager
def fresh(proxy: Proxy, group: str, name: str, folder: Path) -> Iterator[tuple[World, SetUp]]:
    """Put a new world behind the proxy."""
    with TemporaryDirectory(dir=folder) as own:
        database = SqliteDatabase(Path(own))
        world = World(Path(own), lambda _: database.connect(), 0, lambda: left_in(database, Path(own)))
        with world:
            set_up = set_up_of(group, name)(world)
            proxy.world, proxy.mcp_url = world, set_up.mcp
            yield world, set_up


def capture(folder: Path) -> None:
    """Record all installed clients and write the files."""
    found: dict[str, dict[str, list[Json]]] = {}
    with Proxy() as proxy:
        for column in COLUMNS:
            if column.store == "sqlite" and (Path(".clients") / column.folder / "ready").exists():
                print(f"recording {column.name}", flush=True)
                family = "llama_stack" if column.script.startswith("llama_stack") else column.script.partition(".")[0]
                for row, requests in of_column(proxy, column, folder):
                    add(found.setdefault(family, {}), row, column.name, requests)
        for name, (script, clients, arguments) in SCRIPTS.items():
            for client in clients:
                print(f"recording {name} of {client}", flush=True)
                requests = of_script(proxy, name, script, client, arguments, folder)
                add(found.setdefault("scripts", {}), name, client, requests, aliases=False)
    FOLDER.mkdir(exist_ok=True)
    for group, values in found.items():
        (FOLDER / f"{group}.json").write_text(written(values))


def of_column(proxy: Proxy, column: Column, folder: Path) -> Iterator[tuple[str, list[Json]]]:
    """Yield the requests of each row of a column, each row against a new server."""
    left_out = {*OVERLAPPING, *(WORDED if column.client == "python-0.2.23" else ())}
    with ExitStack() as stack:
        world, set_up = stack.enter_context(fresh(proxy, column.script, "", folder))
        for outcome in outcomes(column, proxy.url, set_up.key, RECORDED_MCP.decode()):
            row = outcome["row"]
            requests = recorded(world.exchanges, set_up)
            stack.close()
            if "facts" in outcome and row not in left_out:
                assert outcome["facts"] == ROWS[column.script][row], (row, outcome)
                yield row, requests
            world, set_up = stack.enter_context(fresh(proxy, column.script, "", folder))


def of_script(
    proxy: Proxy, name: str, script: str, client: str, arguments: tuple[str, ...], folder: Path
) -> list[Json]:
    prefix = {"openai_stored.below_openai": "/v1/openai/v1"}.get(name, "/v1" if client == "openai" else "")
    with fresh(proxy, "scripts", name, folder) as (world, set_up):
        given = [RECORDED_MCP.decode() if argument == "MCP" else argument for argument in arguments]
        run_script(client, script, proxy.url + prefix, *given)
        return recorded(world.exchanges, set_up)


def add(found: dict[str, Any], name: str, client: str, requests: list[Json], *, aliases: bool = True) -> None:
    """Add the requests under a new name, unless an equal run of another client is there.

    Without `aliases`, runs that differ by the prefix of their paths stay apart. `every_method` keeps only requests that
    no earlier client sends, because none depends on another.
    """
    alike = [key for key in found if key == name or key.startswith(f"{name}~")]
    if name == "every_method":
        sent = {sameness(request) for key in alike for request in found[key]["requests"]}
        requests = [request for request in requests if sameness(request) not in sent]
    for key in alike:
        if [sameness(each, aliases=aliases) for each in found[key]["requests"]] == [
            sameness(each, aliases=aliases) for each in requests
        ]:
            found[key]["clients"].append(client)
            return
    found[f"{name}~{client}" if alike else name] = {"clients": [client], "requests": requests}


def written(found: Mapping[str, Any]) -> str:
    """Return the recorded runs as JSON: one request per line, common headers once per run."""
    runs = []
    for name, values in sorted(found.items()):
        headers = [request["headers"] for request in values["requests"]]
        common = {key: value for key, value in headers[0].items() if all(each.get(key) == value for each in headers)}
        lines = []
        for request in values["requests"]:
            own = {key: value for key, value in request["headers"].items() if key not in common}
            lines.append(json.dumps({**request, "headers": own}, ensure_ascii=False))
        head = f'"clients": {json.dumps(values["clients"])}, "headers": {json.dumps(common)}'
        runs.append(f'{json.dumps(name)}: {{{head}, "requests": [\n' + ",\n".join(lines) + "\n]}")
    return "{\n" + ",\n".join(runs) + "\n}\n"
