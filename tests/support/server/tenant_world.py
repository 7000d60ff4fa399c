"""Everything that a caller can have on a server, made over HTTP, with a mark in every text the caller chooses."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.local.routes import ROUTES
from tests.support.clients.forms import FormBody, encoded
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for
from tests.support.server.bodies.letta import (
    ALL_BLOCKS,
    BLOCKS,
    LETTA_TOOL,
    MESSAGES,
    PASSAGES,
    SENT,
    SENT_FILE,
    SOURCE,
    SOURCES,
    TEXT,
    TOOLS,
    UPLOAD,
)
from turnstone.domain.access.caller import Caller
from turnstone.domain.refs import SessionRef
from turnstone.http.route import Route
from turnstone.ports.records import Put
from turnstone.store.layout.frames import frame
from turnstone.store.layout.keys import attachment_key

SESSION = "/v1/agents/{agent_id}/session/{session_id}"
REGISTRIES = ("/v1/models", "/v1/toolgroups", "/v1/shields", "/v1/vector-dbs")
IDS = re.compile(
    rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|call_[0-9a-f]{32}|(?:resp|conv)_[A-Za-z0-9_-]+|(?:msg|fc)_[0-9a-f]{36}"
)
MARK = re.compile(r"mark[\w-]*")
STORED = "/v1/openai/v1/chat/completions"
RESPONSES = "/v1/openai/v1/responses"
CONVERSATIONS = "/v1/openai/v1/conversations"
CONVERSATION_ITEMS = f"{CONVERSATIONS}/{{conversation_id}}/items"
THINGS = ("agent", "session", "turn", "model", "group", "shield", "stored")
PARAMETER = re.compile(r"{(\w+)}")
SERVERS_OWN = {"tool_name": "current_time", "provider_id": "default", "name": LETTA_TOOL["name"]}
Header = tuple[bytes, bytes]
QUERY_2024 = {
    "/agents/turn/get": "?agent_id={agent_id}&turn_id={turn_id}",
    "/agents/step/get": "?agent_id={agent_id}&turn_id={turn_id}&step_id={step_id}",
    "/memory-banks/get": "?memory_bank_id={memory_bank_id}",
}
REMOVED = ("/v1/models/{model_id}", "/v1/toolgroups/{toolgroup_id}", "/v1/shields/{identifier}")
REMOVED += ("/v1/vector-dbs/{vector_db_id}", "/v1/memory-banks/{memory_bank_id}")
DOCUMENTS = "/v1/memory-banks/{memory_bank_id}/documents"
BANKS = ("/v1/memory-banks", DOCUMENTS)  # they are of their owner, as agents are
FILES, UPLOADS = "/v1/openai/v1/files", "/v1/openai/v1/uploads"
PARTS = f"{UPLOADS}/{{upload_id}}/parts"
STORES = "/v1/openai/v1/vector_stores"
WEBHOOKS = "/v1/webhooks"
STORE_FILES, BATCHES = f"{STORES}/{{vector_store_id}}/files", f"{STORES}/{{vector_store_id}}/file_batches"
OF_STORES = (STORES, STORE_FILES, BATCHES)
IDS_OF = {STORED: "completion_id", RESPONSES: "response_id", FILES: "file_id", UPLOADS: "upload_id"}
IDS_OF |= {CONVERSATIONS: "conversation_id"}
IDS_OF |= {STORES: "vector_store_id", BATCHES: "batch_id"}
KEYED = (
    RESPONSES,
    CONVERSATIONS,
    CONVERSATION_ITEMS,
    "/v1/agents",
    "/v1/agents/{agent_id}/session",
    *REGISTRIES,
    *BANKS,
    FILES,
    UPLOADS,
    PARTS,
    *OF_STORES,
    WEBHOOKS,
)
INGESTED_WITHIN_S = 20.0


def is_registry(route: Route) -> bool:
    return route.path.startswith((*REGISTRIES, "/v1/openai/v1/models", "/letta/v1/models", WEBHOOKS))


class Tenant:
    """A caller with an agent, a session with an ended and a waiting turn, and one entry of each registry.

    Attributes:
        ids: the values of path parameters; `turn_id` is that of the waiting turn.
        bodies: the bodies that created these objects, by the route's path.
        keys: the headers that came with some of them, which mark a repetition.
        secrets: the marks, and every id that the server returned for these objects.
    """

    def __init__(self, serving: Served, caller: Caller, mark: str, text: str = "") -> None:
        self.caller = caller
        self._client = serving.client
        self._token = key_for(serving, caller)
        self.ids = {**SERVERS_OWN, "model_id": f"{mark}-model"}
        self.ids |= {"toolgroup_id": f"{mark}-group", "identifier": f"{mark}-shield", "vector_db_id": f"{mark}-bank"}
        self.ids |= {"memory_bank_id": f"{mark}-memory", "document_id": f"{mark}-document"}
        self.ids["bank_id"] = self.ids["memory_bank_id"]
        self.ids["block_label"] = f"{mark}-block"
        self.bodies = _bodies(mark, text)
        self.secrets = marks_in(json.dumps(self.bodies))
        self.keys = {path: [(b"idempotency-key", f"{mark} {path}".encode())] for path in KEYED}
        self._make()
        _wait_for_insertions(serving)
        session = {name: self.ids[name] for name in ("agent_id", "session_id")}
        self.ids["attachment_id"] = attach(serving, SessionRef(tenant=caller.tenant, **session), f"{mark}-turn")

    def send(self, method: str, target: str, body: Any = None, headers: Sequence[Header] = ()) -> Answered:
        sent, own = encoded(body)
        return self._client.send(Raw(method, target.encode(), (sent,), (bearer(self._token), *own, *headers)))

    def snapshot(self) -> dict[str, Answered]:
        """Return the owner's answers under each path of an owned object."""
        targets = [route.path for route in ROUTES if route.method == "GET" and _names_something(route)]
        return {target: self.send("GET", target.format_map(self.ids)) for target in targets}

    def unregister(self, ids: Mapping[str, str]) -> set[int]:
        """Remove the registry entries of these ids; return the statuses.

        A list of tools queries every group, without success here: with the groups of all worlds that takes minutes.
        """
        return {self.send("DELETE", target.format_map(ids)).status for target in REMOVED}

    def delete_webhooks(self) -> set[int]:
        """Delete the webhooks of the caller's tenant, which may have few; return the statuses."""
        webhooks = self.send("GET", WEBHOOKS).json()["data"]
        return {self.send("DELETE", f"{WEBHOOKS}/{each['webhook_id']}").status for each in webhooks}

    def _make(self) -> None:
        for path in (
            *("/v1/agents", "/v1/agents/{agent_id}/session", SESSION + "/turn", SESSION + "/turn"),
            *(
                *REGISTRIES,
                STORED,
                RESPONSES,
                CONVERSATIONS,
                CONVERSATION_ITEMS,
                *BANKS,
                FILES,
                UPLOADS,
                PARTS,
                *OF_STORES,
                WEBHOOKS,
            ),
        ):
            if path in OF_STORES:
                written = json.dumps(self.bodies[path]).replace("@file_id@", self.ids["file_id"])
                self.bodies = {**self.bodies, path: json.loads(written)}
            answer = self.send("POST", path.format_map(self.ids), self.bodies[path], self.keys.get(path, ()))
            assert answer.status == 200, answer
            self.secrets |= set(IDS.findall(answer.body))
            made = answer.json() or {}
            if path != CONVERSATIONS:  # its agent and session are others than these
                self.ids |= {
                    name: made[name] for name in ("agent_id", "session_id", "turn_id", "webhook_id") if name in made
                }
            if path in IDS_OF:
                self.ids[IDS_OF[path]] = made["id"]
            if path == CONVERSATION_ITEMS:
                self.ids["item_id"] = made["first_id"]
            if made.get("steps"):
                self.ids["step_id"] = made["steps"][0]["step_id"]
        answer = self.send("POST", RESPONSES, self.bodies[RESPONSES])  # without a key its attempt is stored
        self.secrets |= set(IDS.findall(answer.body))
        block = {"label": self.ids["block_label"], "value": "a text"}
        added = self.send("POST", BLOCKS.format_map(self.ids), block)
        assert added.status == 200, added
        self.secrets.add(added.json()["blocks"][-1]["id"].removeprefix("block-").encode())
        own = self.send("POST", ALL_BLOCKS, {**block, "label": f"{self.ids['block_label']}-apart"})
        self.ids["block_id"] = own.json()["id"].removeprefix("block-")
        self.secrets.add(self.ids["block_id"].encode())
        function = f"{self.ids['block_label'].replace('-', '_')}_tool"
        tool = self.send("POST", TOOLS, {"source_code": f"def {function}():\n    'Do it.'\n"})
        self.ids["tool_id"] = tool.json()["id"].removeprefix("tool-")
        self.secrets |= {function.encode(), self.ids["tool_id"].encode()}
        (passage,) = self.send("POST", PASSAGES.format_map(self.ids), TEXT).json()
        self.ids["memory_id"] = passage["id"]
        self.secrets.add(passage["id"].removeprefix("passage-").encode())
        run = self.send("POST", f"{MESSAGES.format_map(self.ids)}/async", SENT)
        assert run.status == 200, run
        self.ids["run_id"] = run.json()["id"]
        self.secrets.add(run.json()["id"].removeprefix("run-").encode())
        sent = self.send("POST", MESSAGES.format_map(self.ids), SENT)  # waits for the end of the run
        self.ids["message_id"] = sent.json()["messages"][0]["id"]
        self.secrets.add(self.ids["message_id"].removeprefix("message-").encode())
        self._make_source()
        tested = self.send("POST", f"{WEBHOOKS}/{self.ids['webhook_id']}/test").json()
        self.ids["delivery_id"] = tested["delivery_id"]
        self.secrets |= {tested["delivery_id"].encode(), tested["event_id"].encode()}
        self.bodies = {**self.bodies, **self._bodies_2024()}

    def _make_source(self) -> None:
        """Make a source with a file, attached to the agent."""
        self.ids["source_name"] = f"{self.ids['block_label']}-source"
        source = self.send("POST", SOURCES, {"name": self.ids["source_name"]})
        self.ids["source_id"] = source.json()["id"]
        job = self.send("POST", UPLOAD.format_map(self.ids), SENT_FILE)
        self.ids["job_id"] = job.json()["id"]
        attached = self.send("POST", f"{SOURCE}/attach?agent_id={{agent_id}}".format_map(self.ids))
        assert (source.status, job.status, attached.status) == (200, 200, 200), (source, job, attached)
        self.secrets |= {self.ids[name].partition("-")[2].encode() for name in ("source_id", "job_id")}

    def _bodies_2024(self) -> Mapping[str, Any]:
        """Return requests in the form of September 2024 for these objects, or for more of them."""
        agent, session, turn, step = (
            {name: self.ids[name] for name in ("agent_id", "session_id", "turn_id", "step_id")[:number]}
            for number in (1, 2, 3, 4)
        )
        session_name = self.bodies["/v1/agents/{agent_id}/session"]["session_name"]
        return {
            "/agents/create": self.bodies["/v1/agents"],
            "/agents/delete": agent,
            "/agents/session/create": {**agent, "session_name": session_name},
            "/agents/session/get": session,
            "/agents/session/delete": session,
            "/agents/turn/create": {**session, "messages": self.bodies[SESSION + "/turn"]["messages"]},
            "/agents/turn/get": turn,
            "/agents/step/get": step,
        }


def _wait_for_insertions(serving: Served) -> None:
    """Wait until the insertions of files have ended: they would change the store between two reads."""
    deadline = time.monotonic() + INGESTED_WITHIN_S
    soon = datetime.now(UTC) + timedelta(minutes=10)  # also those that wait for their next try
    while any(job.kind == "ingest_document" for job in serving.server.core.cleaning._store.due(soon)):
        assert time.monotonic() < deadline, "an insertion does not end"
        time.sleep(0.005)


def attach(serving: Served, ref: SessionRef, text: str) -> str:
    """Store an attachment like that of a tool in the session; return its id."""
    attachment_id = "0" * 32
    body = frame({"name": text, "mime_type": "text/plain"}, text.encode())
    records = serving.server.core.attachments.store._store
    records.write([Put(attachment_key(ref, attachment_id), body, is_apart=True)])
    return attachment_id


def _names_something(route: Route) -> bool:
    names = set(PARAMETER.findall(route.path))
    return bool(names) and not names & SERVERS_OWN.keys()


def marks_in(text: str) -> set[bytes]:
    """Return the marks in a text. A mark names its owner and object."""
    return {found.encode() for found in MARK.findall(text)}


def _bodies(mark: str, text: str) -> Mapping[str, Any]:
    agent, session, turn, model, group, shield, stored = (f"{mark}-{thing} {text}" for thing in THINGS)
    parameter = {"name": "city", "parameter_type": "string", "description": agent, "default": agent}
    tool = {"name": "look", "description": agent, "parameters": [parameter], "metadata": {agent: agent}}
    config = {"model": agent, "instructions": agent, "name": agent, "client_tools": [tool]}
    message = {"role": "user", "content": f"{turn} look(city=Oslo)", "context": turn}
    endpoint = {"uri": f"http://{mark}-group/mcp"}
    return {
        "/v1/agents": {"agent_config": {**config, "sampling_params": {"stop": [agent]}}},
        "/v1/agents/{agent_id}/session": {"session_name": session},
        SESSION + "/turn": {"messages": [message], "instructions": turn},
        STORED: {
            "model": "offline",
            "messages": [{"role": "user", "content": stored}],
            "store": True,
            "metadata": {"of": stored[:500]},
        },
        RESPONSES: {
            "model": "offline",
            "input": stored,
            "instructions": stored,
            "metadata": {"of": stored[:500]},
        },
        CONVERSATIONS: {
            "items": [{"role": "user", "content": stored}],
            "metadata": {"of": stored[:500]},
        },
        f"{CONVERSATIONS}/{{conversation_id}}": {"metadata": {"of": stored[:500]}},
        CONVERSATION_ITEMS: {"items": [{"role": "user", "content": stored}]},
        "/v1/models": {"model_id": f"{mark}-model", "metadata": {model: model}},
        "/v1/toolgroups": {
            "toolgroup_id": f"{mark}-group",
            "provider_id": "model-context-protocol",
            "mcp_endpoint": endpoint,
            "args": {group: group},
        },
        "/v1/shields": {
            "shield_id": f"{mark}-shield",
            "provider_id": "pattern",
            "params": {"words": [shield], "user_message": shield},
        },
        "/v1/vector-dbs": {"vector_db_id": f"{mark}-bank", "embedding_model": "offline"},
        "/v1/vector-io/insert": {
            "vector_db_id": f"{mark}-bank",
            "chunks": [{"content": stored, "metadata": {stored: stored}}],
        },
        "/v1/vector-io/query": {"vector_db_id": f"{mark}-bank", "query": stored},
        **_of_banks(mark, stored),
        FILES: FormBody(purpose="assistants", file=stored),
        UPLOADS: {
            "bytes": 1_000,
            "filename": "".join(filter(str.isprintable, stored)),
            "mime_type": "text/plain",
            "purpose": "vision",
        },
        PARTS: FormBody(data=stored),
        f"{UPLOADS}/{{upload_id}}/complete": {"part_ids": [stored]},
        STORES: {"name": stored[:200], "metadata": {"of": stored[:500]}, "file_ids": ["@file_id@"]},
        STORE_FILES: {"file_id": "@file_id@", "attributes": {"of": stored[:500]}},
        BATCHES: {"file_ids": ["@file_id@"]},
        WEBHOOKS: {
            "url": f"https://{mark}-hooks.invalid/",
            "event_types": ["turn.completed"],
            "description": stored[:500],
        },
        f"{WEBHOOKS}/{{webhook_id}}": {"description": stored[:500]},
        f"{STORES}/{{vector_store_id}}": {"name": stored[:200]},
        f"{STORES}/{{vector_store_id}}/search": {"query": stored},
        f"{STORE_FILES}/{{file_id}}": {"attributes": {"of": stored[:500]}},
        "/v1/safety/run-shield": {"shield_id": f"{mark}-shield", "messages": [{"role": "user", "content": shield}]},
    }


def _of_banks(mark: str, text: str) -> Mapping[str, Any]:
    memory = f"{mark}-memory"
    documents = [{"document_id": f"{mark}-document", "content": text, "metadata": {text: text}}]
    register = {"memory_bank_id": memory, "params": {"memory_bank_type": "keyword"}, "name": text}
    return {
        "/v1/memory-banks": register,
        DOCUMENTS: {"documents": documents},
        "/v1/memory-banks/{memory_bank_id}/query": {"query": text},
        "/v1/tool-runtime/rag-tool/insert": {"vector_db_id": f"{mark}-bank", "documents": documents},
        "/v1/tool-runtime/rag-tool/query": {"vector_db_ids": [f"{mark}-bank"], "content": text},
        "/memory-banks/register": register,
        "/memory-banks/unregister": {"memory_bank_id": memory},
        "/memory-banks/get": {"memory_bank_id": memory},
        "/memory/insert": {"bank_id": memory, "documents": documents},
        "/memory/query": {"bank_id": memory, "query": text},
    }
