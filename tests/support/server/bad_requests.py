"""Requests made from valid ones by changes, and checks of their answers."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from hypothesis import strategies as st

from tests.support.clients.forms import FORM_TYPE, OF_FORM, FormBody, encoded_form
from tests.support.server.asgi_client import Answered, Raw, Served, strict_json
from tests.support.server.bodies.letta import AGENTS as LETTA_AGENTS
from tests.support.server.bodies.letta import (
    ALL_BLOCKS,
    BLOCKS,
    JOBS,
    LETTA,
    LETTA_TOOL,
    MESSAGES,
    NEW_BLOCK,
    NEW_SOURCE,
    NEW_TOOL,
    OF_AGENT,
    PASSAGES,
    SENT,
    SENT_FILE,
    SOURCES,
    TEXT,
    TOOLS,
    UPLOAD,
    WITHOUT_ANSWER,
)
from tests.support.server.bodies.responses import CONVERSATIONS, NEW_CONVERSATIONS, RESPONSES
from tests.support.server.bodies.responses import VALID as RESPONSE_BODIES
from tests.support.server.bodies.vector_stores import ADDING_FILES, FILE_BATCHES, STORE, VECTOR_STORES, files_in
from tests.support.server.bodies.webhooks import CREATE, WEBHOOKS
from tests.support.server.body_shapes import ENTRY_ID, RIGHT, UNSURE, WRONG
from tests.support.server.file_bodies import ADD_PART, CONTENT, FILES, UPLOADS
from tests.support.server.memory_bodies import (
    BANK_ID,
    DOCUMENT_ID,
    INSERTED_DOCUMENTS,
    RAG_QUERY_PATH,
    VECTOR_DB_ID,
)
from tests.support.server.tenant_world import attach
from tests.support.server.valid_bodies import (
    BANK_PATH,
    BODIES,
    DELETED,
    DELETES_2024,
    FULL_AGENT,
    OPENAI_MODELS,
    REGISTRIES,
    RUN,
    SESSION_PATH,
    STORED,
    TURN_PATH,
)
from turnstone.domain.refs import SessionRef
from turnstone.http.route import Route

JUNK: list[Any] = [None, True, False, 0, -1, 1, 3.0, 0.5, 2**63, -(10**30), 10**400, 1e308, float("nan"), float("inf")]
JUNK += ["", "x", "10", "yes", "²", "٣", "\x00", "\ud800", "\udfff\ud800", "😀", "a" * 5_000, "add", "grammar"]
JUNK += [[], {}, [[]], [None], [{}], ["x"], {"": None}, {"type": "text"}, {"\ud800": 1}, {"role": "tool"}]
LITERALS = {"@deep@": "[" * 10_000 + "]" * 10_000, "@deeper@": '{"a":' * 10_000 + "0" + "}" * 10_000}
LITERALS |= {"@digits@": "9" * 5_000, "@endless@": "1e999", "@octal@": "010", "@word@": "undefined"}
# one of each kind, for every run; the night takes them all
SUBSTITUTES: list[Any] = [None, True, -1, 0.5, 10**400, "@endless@", "", "x", "a" * 5_000, "\ud800", [None], {}]
PIECES = [b"\x00", b"\xff", b"\xc0\xae", b"\xed\xa0\x80", b",", b"}", b'"', b"\\", b"NaN", b"//", b"\xef\xbb\xbf", b" "]
WAYS_TO_SPOIL = ["cut", "twice", "utf-16", "key twice", "quoted", "listed"]
PARTS = r"""
. .. ../ %2e%2e%2f ..%2f..%2fetc%2fpasswd %00 %ZZ % %c0%ae %ff %ED%A0%80 %F0%9F%98%80 | a|b : # %23 %25 %2F %5C %0A %20
~ ctx:~ turn: null -1 * + ' \ @%00 %20@ @%0A @/ /@ @@
"""
ODD_IDS = ["", "a" * 5_000, "%61" * 5_000, *PARTS.split()]
QUERIES = [b"stream=true", b"&&==", b"%zz=%ff", b"turn_ids=", b"turn_ids=%00&turn_ids=%ff", b"'\"|\\", b"a" * 5_000]
QUERIES += [b"after=", b"after=3", b"after=-1", b"after=1e3", b"after=x&after=99999999", b"after=%D9%A3"]
QUERIES += [b"toolgroup_id=%00", b"toolgroup_id=builtin::clock", b"toolgroup_id=builtin%3A%3Aclock&toolgroup_id=a%2Fb"]
QUERIES += [b"from=2026-11-22&to=2026-11-22", b"from=2026-11-01&to=2026-12-02", b"from=2026-11-22&to=2026-11-21"]
QUERIES += [b"to=2026-02-29", b"to=20261122", b"to=0001-01-01", b"from=&to=", b"session_id=x", b"from=%D9%A3"]
QUERIES += [b"limit=5&order=asc", b"limit=0", b"limit=101", b"order=up", b"metadata%5Btopic%5D=sums", b"model=offline"]
QUERIES += [b"metadata[a]=1&metadata[a]=2", b"metadata[]=1", b"metadata=1", b"order=&limit=&after="]
COUNTS = [b"", b"0", b"1", b"-1", b"1.5", b"true", b"garbage", b"9" * 400, b"\xb2", "٣".encode()]
LONG_LIST = 20
KEYS = [b"", b"k", b"a|b:c#d%", b"k" * 5_000, b"\x80\xff\xfe", "😀".encode()]
TYPES = [b"text/plain", b"application/x-www-form-urlencoded", b"application/json; charset=utf-16", b"\xff"]
HEADERS = {b"x-stainless-retry-count": COUNTS, b"idempotency-key": KEYS, b"content-type": TYPES}


SOMETIMES = st.sampled_from([False, False, False, True])
ANYWHERE = st.integers(0, 9_999)
VALUES = st.sampled_from([*JUNK, *LITERALS]) | st.text() | st.integers() | st.floats()
WAYS_TO_CHANGE = st.sampled_from(["replace", "replace", "remove", "wrap", "add"])
CHANGES = st.lists(st.tuples(ANYWHERE, WAYS_TO_CHANGE, VALUES), max_size=2)
SPOILINGS = st.tuples(st.sampled_from([*WAYS_TO_SPOIL, *PIECES]), ANYWHERE)
IDS = st.sampled_from(ODD_IDS) | st.text().map(quote)
QUERY = st.sampled_from([b""] * 20 + QUERIES)
HEADER = st.sampled_from([(name, value) for name, values in HEADERS.items() for value in values])
SOME_HEADERS = st.lists(HEADER, min_size=1, max_size=2).map(tuple)
EITHER_WAY = st.booleans()


@dataclass(frozen=True)
class Case:
    """A request, before ids are filled in. `odd_id` is (parameter, text), where `@` stands for the true id."""

    body: bytes
    odd_id: tuple[str, str] | None
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    cut_at: int


@st.composite
def cases(draw: st.DrawFn, route: Route) -> Case:
    names = re.findall(r"{(\w+)}", route.path)
    valid = BODIES[route.method, route.path].valid
    body = written(changed(valid[draw(ANYWHERE) % len(valid)], draw(CHANGES)), in_ascii=draw(EITHER_WAY))
    if draw(SOMETIMES):
        body = spoilt(body, *draw(SPOILINGS))
    return Case(
        body=body,
        odd_id=(names[draw(ANYWHERE) % len(names)], draw(IDS)) if names and draw(SOMETIMES) else None,
        query=draw(QUERY),
        headers=draw(SOME_HEADERS) if draw(SOMETIMES) else (),
        cut_at=draw(ANYWHERE) % (len(body) + 1),
    )


REGISTERED_BY = ("model_id", "toolgroup_id", "shield_id", "vector_db_id", "memory_bank_id")
OBJECTS = (STORED, RESPONSES, CONVERSATIONS, FILES, UPLOADS, WEBHOOKS, LETTA)
TO_VECTOR_DBS = ("/v1/vector-io", "/v1/tool-runtime/rag-tool")
REGISTERS_2024 = "/memory-banks/register"
TO_BANKS = ("/memory/", "/memory-banks/get", "/memory-banks/unregister")


def changed(valid: Any, changes: Sequence[tuple[int, str, Any]]) -> Any:
    """Return the body with a change here and there, at any depth."""
    holder = {"body": copy.deepcopy(valid)}
    for where, way, value in changes:
        slots = list(slots_in(holder))
        within, key = slots[where % len(slots)]
        if way == "remove" and within is not holder:
            del within[key]
        elif way == "add" and isinstance(within[key], dict):
            within[key]["unknown"] = copy.deepcopy(value)
        else:
            within[key] = [within[key]] if way == "wrap" else copy.deepcopy(value)
    return holder["body"]


def written(body: Any, *, in_ascii: bool) -> bytes:
    if isinstance(body, FormBody):
        return encoded_form(body)
    text = json.dumps(body, ensure_ascii=in_ascii)
    for marker, literal in LITERALS.items():
        text = text.replace(f'"{marker}"', literal)
    return text.encode("utf-8", "surrogatepass")


def slots_in(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where each value within the holder is, at any depth; of a long list, only the first and the last one."""
    for key in list(holder) if isinstance(holder, dict) else _ends(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from slots_in(holder[key])


def _ends(length: int) -> Iterable[int]:
    return range(length) if length <= LONG_LIST else (0, length - 1)


def spoilt(raw: bytes, how: str | bytes, where: int) -> bytes:
    """Return the text as a careless or hostile client might send it."""
    at = where % (len(raw) + 1)
    match how:
        case "cut":
            return raw[:at]
        case "twice":
            return raw + raw
        case "utf-16":
            return raw.decode("utf-8", "replace").encode("utf-16")
        case "key twice":
            return re.sub(rb'^{("[^"]*")', rb"{\1: 5, \1", raw)
        case "quoted":
            return json.dumps(raw.decode("utf-8", "replace")).encode()
        case "listed":
            return b"[" + raw + b"]"
        case _:
            return raw[:at] + bytes(how) + raw[at:]


class World:
    """One server with an agent, a session and a turn of it, for the cases of one route."""

    def __init__(self, server: Served, route: Route) -> None:
        self._server = server
        self._route = route
        self._bodies = BODIES[route.method, route.path]
        self._ids: dict[str, str] = {}
        self._ids |= {
            "model_id": ENTRY_ID,
            "toolgroup_id": "mcp::a",
            "identifier": ENTRY_ID,
            "vector_db_id": VECTOR_DB_ID,
        }
        self._ids |= {"tool_name": "current_time", "provider_id": "default", "document_id": DOCUMENT_ID}
        self._ids |= {"memory_bank_id": BANK_ID, "bank_id": BANK_ID, **LETTA_TOOL}
        self._pending: list[str] = []
        self._register()
        self._make_agent()
        self._begin_again()

    def check(self, case: Case) -> None:
        """Send the request; check that the answer is true, and that nothing changed unless it reports that."""
        request = self._request(case)
        before = self._server.marks()
        answer = self._server.client.send(request)
        after = self._server.marks()
        assert answer.status in self._true_statuses(request), answer
        if answer.status == 200:
            check_success(answer)
        elif answer.status == DELETED:
            assert answer.body == b""
        else:
            assert answer.refusal()
        if answer.status == 200 and self._route.path in DELETES_2024:
            assert self._server.client.get(self._at(DELETES_2024[self._route.path])).status == 404
            self._register()
            self._make_agent()
            self._begin_again()
            return
        if answer.status == 200 and request.method != "GET" and self._route.path.startswith(OBJECTS):
            self._check_object(request, answer, has_changed=before != after)
            return
        if answer.status == 200 and (self._changes_store or self._removes_model):
            (self._check_store if self._changes_store else self._check_registered)(request, answer)
            return
        if (
            answer.status not in (200, DELETED)
            or request.method == "GET"
            or not self._route.stores
            or self._runs_shield
        ):
            assert before == after
            return
        if self._route.path.startswith((*REGISTRIES, REGISTERS_2024)):
            self._check_registered(request, answer)
            return
        if answer.status == DELETED:
            assert self._is_letta or self._server.client.get(self._at(self._route.path)).status == 404
            self._make_agent()
            self._begin_again()
            return
        assert self._server.client.get(self._made(answer)).status == 200
        if "/turn" in self._route.path:
            self._begin_again()

    def _check_object(self, request: Raw, answer: Answered, *, has_changed: bool) -> None:
        if self._route.path.startswith(RESPONSES):
            self._check_responses(request, answer)
        elif self._route.path.startswith(CONVERSATIONS):
            self._check_conversations(request, answer)
        elif self._route.path.startswith(WEBHOOKS):
            self._check_webhook(request, answer)
        elif self._is_letta:
            self._check_letta(request, answer)
        elif self._route.path.startswith(STORED):
            self._check_stored(request, answer, has_changed=has_changed)
        else:
            self._check_files(request, answer, has_changed=has_changed)

    def _check_letta(self, request: Raw, answer: Answered) -> None:
        """Check that an agent or a block is there after a request, or gone after its removal; then restore it."""
        client = self._server.client
        if request.method == "DELETE":
            assert client.send(Raw("DELETE", self._at(self._route.path).encode())).status == 404
            self._make_agent()
        elif self._route.path in (UPLOAD, SOURCES):
            path = JOBS if self._route.path == UPLOAD else SOURCES
            assert client.get(f"{path}/{answer.json()['id']}").status == 200
        elif self._route.path == ALL_BLOCKS:
            assert client.get(f"{ALL_BLOCKS}/{answer.json()['id']}").status == 200
        elif (request.method, self._route.path) == ("POST", TOOLS):
            own = f"{TOOLS}/{answer.json()['id']}"
            assert client.get(own).status == client.send(Raw("DELETE", own.encode())).status == 200
        elif self._route.path == LETTA_AGENTS:
            assert client.get(f"{LETTA_AGENTS}/{answer.json()['id']}").status == 200

    def _check_stored(self, request: Raw, answer: Answered, *, has_changed: bool) -> None:
        """Check that a chat completion is stored, changed or gone, as requested."""
        client = self._server.client
        if self._route.path == STORED:
            is_stored = understood(b"".join(request.body)).get("store") in (True, "true")
            assert is_stored == has_changed
            (completion_id,) = set(re.findall(rb'"id":"(chatcmpl-[^"]+)"', answer.body))
            assert client.get(f"{STORED}/{completion_id.decode()}").status == (200 if is_stored else 404)
        elif request.method == "DELETE":
            assert client.get(self._at(self._route.path)).status == 404
            self._store()
        else:
            assert client.get(self._at(self._route.path)).body == answer.body

    def _check_responses(self, request: Raw, answer: Answered) -> None:
        """Check that a response is stored or gone, as requested."""
        client = self._server.client
        if request.method == "DELETE":
            assert client.get(self._at(self._route.path)).status == 404
            self._respond()
            return
        made = set(re.findall(rb'"id":"(resp_[^"]+)"', answer.body))
        assert [client.get(f"{RESPONSES}/{each.decode()}").status for each in made] == [200]

    def _check_conversations(self, request: Raw, answer: Answered) -> None:
        """Check that a conversation or an item is stored, changed or gone, as requested."""
        client, path = self._server.client, self._at(self._route.path)
        if request.method == "DELETE":
            assert client.get(path).status == 404
            self._converse()
        elif path.endswith("/items"):
            assert [client.get(f"{path}/{item['id']}").status for item in answer.json()["data"]][-1:] == [200]
        else:
            assert client.get(f"{CONVERSATIONS}/{answer.json()['id']}").body == answer.body

    def _converse(self) -> None:
        client = self._server.client
        self._ids["conversation_id"] = client.post(CONVERSATIONS, NEW_CONVERSATIONS[-1]).json()["id"]
        self._ids["item_id"] = client.get(self._at(f"{CONVERSATIONS}/{{conversation_id}}/items")).json()["first_id"]

    def _check_files(self, request: Raw, answer: Answered, *, has_changed: bool) -> None:
        """Check that a file or an upload is stored, changed or gone; then restore both."""
        is_keyed = any(name == b"idempotency-key" and value for name, value in request.headers)
        assert has_changed or is_keyed
        file = answer.json()["id"] if self._route.path == FILES else (answer.json().get("file") or {}).get("id")
        if request.method == "DELETE":
            assert self._server.client.get(self._at(self._route.path)).status == 404
        elif file:
            assert self._server.client.get(f"{FILES}/{file}").status == 200
        if not request.target.endswith(b"/parts"):
            self._store_files()

    def _check_webhook(self, request: Raw, answer: Answered) -> None:
        """Check that a webhook is there after a change, and gone after its removal; restore it."""
        client, webhook_id = self._server.client, answer.json()["webhook_id"]
        is_there = client.get(f"{WEBHOOKS}/{webhook_id}").status == 200
        if request.method == "DELETE":
            assert not is_there
            self._make_webhook()
        elif self._route.path == WEBHOOKS and is_there:
            client.send(Raw("DELETE", f"{WEBHOOKS}/{webhook_id}".encode()))  # a tenant has few

    def _make_webhook(self) -> None:
        client = self._server.client
        self._ids["webhook_id"] = client.post(WEBHOOKS, CREATE).json()["webhook_id"]
        tested = client.post(self._at(f"{WEBHOOKS}/{{webhook_id}}/test"), {})
        self._ids["delivery_id"] = tested.json()["delivery_id"]

    @property
    def _changes_store(self) -> bool:
        changes = self._route.method != "GET" and not self._route.path.endswith("/search")
        return changes and self._route.path.startswith(VECTOR_STORES)

    def _check_store(self, request: Raw, answer: Answered) -> None:
        """Check that an object exists after its change, and none after its removal; restore the vector store."""
        client = self._server.client
        if request.method == "DELETE":
            assert client.get(self._at(self._route.path)).status == 404
            self._fill_store()
            return
        base = VECTOR_STORES if self._route.path == VECTOR_STORES else self._at(self._route.path)
        made = answer.json()["id"]
        path = base.removesuffix("/cancel") if base.endswith((made, "/cancel")) else f"{base}/{made}"
        if client.get(path).status == 404:  # a repetition of a request whose result was removed here
            assert any(name == b"idempotency-key" and value for name, value in request.headers)

    def _fill_store(self) -> None:
        """Make a vector store with a file and a batch of it."""
        client = self._server.client
        self._store_files()
        self._ids["vector_store_id"] = client.post(VECTOR_STORES, {"name": "birds"}).json()["id"]
        batch = client.post(self._at(FILE_BATCHES), {"file_ids": [self._ids["file_id"]]})
        self._ids["batch_id"] = batch.json()["id"]

    def _store_files(self) -> None:
        client = self._server.client
        self._ids["file_id"] = client.post(FILES, BODIES["POST", FILES].valid[0]).json()["id"]
        self._ids["upload_id"] = client.post(UPLOADS, BODIES["POST", UPLOADS].valid[0]).json()["id"]
        part = client.post(self._at(f"{UPLOADS}/{{upload_id}}/parts"), ADD_PART).json()
        self._pending = [part["id"]]

    def _respond(self) -> None:
        made = RESPONSE_BODIES[0] | {"background": self._route.path.endswith("/cancel")}
        self._ids["response_id"] = self._server.client.post(RESPONSES, made).json()["id"]

    def _store(self) -> None:
        body = {"model": "offline", "messages": [{"role": "user", "content": "hi"}], "store": True}
        self._ids["completion_id"] = self._server.client.post(STORED, body).json()["id"]

    @property
    def _removes_model(self) -> bool:
        return self._route.method == "DELETE" and self._route.path.startswith(OPENAI_MODELS)

    def _check_registered(self, request: Raw, _: Answered) -> None:
        """Check that a registered entry or document exists, or that a removed one is gone; then restore the entries."""
        client = self._server.client
        if request.method == "DELETE":
            assert client.get(self._at(self._route.path)).status == 404
            self._register()
            return
        if "/documents" in self._route.path:
            assert client.get(self._at(self._route.path) + "?limit=1").status == 200
            return
        body = understood(b"".join(request.body))
        (entry_id,) = (value for name, value in body.items() if name in REGISTERED_BY)
        path = self._route.path if self._route.path.startswith(REGISTRIES) else "/v1/memory-banks"
        target = f"{path}/{quote(entry_id, safe='/')}".encode()
        found = client.send(Raw("GET", target))
        if found.status == 404 and any(name == b"idempotency-key" and value for name, value in request.headers):
            return  # a repetition of a request whose result was removed here
        assert found.json()["identifier"] == entry_id
        assert client.send(Raw("DELETE", target)).status == 200

    def _insert_documents(self) -> None:
        assert self._server.client.post(self._at(BANK_PATH + "/documents"), INSERTED_DOCUMENTS).status == 200

    def _register(self) -> None:
        """Register the entries that the paths name, with a document where they name one."""
        for path in REGISTRIES:
            is_named = self._runs_shield and path == "/v1/shields"
            is_named |= path == "/v1/vector-dbs" and self._route.path.startswith(TO_VECTOR_DBS)
            is_named |= path == "/v1/memory-banks" and self._route.path.startswith(TO_BANKS)
            if self._route.path.removeprefix("/v1/openai").startswith(path + "/") or is_named:
                assert self._server.client.post(path, BODIES["POST", path].valid[0]).status == 200
        if "/documents" in self._route.path:
            self._insert_documents()

    def _make_agent(self) -> None:
        made = self._server.client.post("/v1/agents", {"agent_config": FULL_AGENT}).json()
        self._ids["agent_id"] = made["agent_id"]
        if "{block_label}" in self._route.path:
            self._ids["block_label"] = "human"
            block = {"label": "human", "value": "name: Bob"}
            assert self._server.client.post(self._at(BLOCKS), block).status == 200
        if "{block_id}" in self._route.path:
            self._ids["block_id"] = self._server.client.post(ALL_BLOCKS, NEW_BLOCK).json()["id"]
            if self._route.path.endswith("/detach"):
                self._attach()
        if self._route.path.startswith(f"{TOOLS}/{{"):
            body = json.dumps(NEW_TOOL).encode()
            self._ids["tool_id"] = self._server.client.send(Raw("PUT", TOOLS.encode(), (body,))).json()["id"]
        if "{memory_id}" in self._route.path:
            (passage,) = self._server.client.post(self._at(PASSAGES), TEXT).json()
            self._ids["memory_id"] = passage["id"]
        if "{message_id}" in self._route.path:
            answer = self._server.client.post(self._at(MESSAGES), SENT).json()
            self._ids["message_id"] = answer["messages"][0]["id"]
        if "{run_id}" in self._route.path:
            self._ids["run_id"] = self._server.client.post(self._at(MESSAGES) + "/async", SENT).json()["id"]
            # waits for the end of the run
            assert self._server.client.post(self._at(MESSAGES), SENT).status == 200

        if "{source_" in self._route.path or "{job_id}" in self._route.path:
            self._make_source()

    def _make_source(self) -> None:
        """Make a source with a file, whose job is begun."""
        client = self._server.client
        self._ids["source_id"] = client.post(SOURCES, NEW_SOURCE).json()["id"]
        self._ids["source_name"] = NEW_SOURCE["name"]
        self._ids["job_id"] = client.post(self._at(UPLOAD), SENT_FILE).json()["id"]
        self._ids["file_id"] = client.get(self._at(f"{SOURCES}/{{source_id}}/files")).json()[0]["id"]

    def _attach(self) -> None:
        target = self._at("/letta/v1/blocks/{block_id}/attach?agent_id={agent_id}")
        assert self._server.client.send(Raw("PATCH", target.encode())).status == DELETED

    def _at(self, path: str) -> str:
        return path.format_map(self._ids)

    def _begin_again(self) -> None:
        """Make a new session with a turn: an ended one to read, one that waits for its client to resume."""
        client = self._server.client
        session = client.post(self._at("/v1/agents/{agent_id}/session"), {"session_name": "s"}).json()
        self._ids["session_id"] = session["session_id"]
        if "{completion_id}" in self._route.path:
            self._store()
        if "{response_id}" in self._route.path:
            self._respond()
        if "{conversation_id}" in self._route.path:
            self._converse()
        if self._route.path.startswith((FILES, UPLOADS)):
            self._store_files()
        if self._route.path.startswith(VECTOR_STORES):
            self._fill_store()
        if self._route.path.startswith(WEBHOOKS) and "webhook_id" not in self._ids:
            self._make_webhook()
        if "{attachment_id}" in self._route.path:
            ref = SessionRef(tenant="local", agent_id=self._ids["agent_id"], session_id=self._ids["session_id"])
            self._ids["attachment_id"] = attach(self._server, ref, "a file")
        if "{turn_id}" in self._route.path or "turn_id" in self._bodies.names:
            words = "add(a=1) get_weather(city=Oslo)" if self._route.method == "POST" else "hello"
            messages = [{"role": "user", "content": words}]
            turn = client.post(self._at(SESSION_PATH + "/turn"), {"messages": messages}).json()
            self._ids |= {"turn_id": turn["turn_id"], "step_id": turn["steps"][0]["step_id"]}
            self._pending = [call["call_id"] for call in turn["output_message"]["tool_calls"]]

    def _made(self, answer: Answered) -> str:
        """Return the path of the object in the answer, or of the database with inserted chunks."""
        if self._route.path.startswith(TO_VECTOR_DBS):
            return self._at("/v1/vector-dbs/{vector_db_id}")
        if self._route.path.startswith(TO_BANKS):
            return self._at(BANK_PATH)
        found = re.search(r'"(agent_id|session_id|turn_id)":"([^"]*)"', answer.body.decode())
        assert found is not None
        kind, identifier = found.groups()
        paths = {"agent_id": "/v1/agents/{agent_id}", "session_id": SESSION_PATH, "turn_id": TURN_PATH}
        return paths[kind].format_map(self._ids | {kind: identifier})

    def _request(self, case: Case) -> Raw:
        ids = dict(self._ids)
        if case.odd_id:
            name, odd = case.odd_id
            ids[name] = odd.replace("@@", quoted_all(ids[name])).replace("@", ids[name])
        query = b"&".join(filter(None, (self._bodies.query.format_map(ids).encode(), case.query)))
        target = self._route.path.format_map(ids).encode() + (b"?" + query if query else b"")
        body = case.body
        for name in self._bodies.names:
            body = body.replace(b"@%s@" % name.encode(), ids[name].encode())
        for index, call_id in enumerate(self._pending):
            body = body.replace(b"@call%d@" % index, call_id.encode())
        headers = (*OF_FORM, *case.headers) if self._route.file else case.headers
        return Raw(self._route.method, target, (body[: case.cut_at], body[case.cut_at :]), headers)

    @property
    def _deletes(self) -> bool:
        return self._route.method == "DELETE" and not self._route.path.startswith(
            (*REGISTRIES, OPENAI_MODELS, STORED, RESPONSES, CONVERSATIONS, FILES, STORE, WEBHOOKS, LETTA)
        )

    @property
    def _is_letta(self) -> bool:
        return self._route.path.startswith(f"{LETTA}/")

    @property
    def _is_about_agent(self) -> bool:
        return (self._route.method, self._route.path) in OF_AGENT

    @property
    def _runs_tool(self) -> bool:
        return self._route.path == "/v1/tool-runtime/invoke"

    @property
    def _queries_rag(self) -> bool:
        return self._route.path == RAG_QUERY_PATH

    @property
    def _adds_files(self) -> bool:
        return self._route.method == "POST" and self._route.path in ADDING_FILES

    @property
    def _runs_shield(self) -> bool:
        return (self._route.method, self._route.path) == RUN

    def _true_statuses(self, request: Raw) -> set[int]:
        path, _, query = request.target.partition(b"?")
        grade = self._grade(b"".join(request.body), query)
        is_there = unquote(path.decode()) == self._at(self._route.path)
        if self._is_letta:
            refused = {400, 404, 409, 422}
            done = {DELETED if (self._route.method, self._route.path) in WITHOUT_ANSWER else 200}
            true = {WRONG: refused, UNSURE: done | refused, RIGHT: done}[grade] if is_there else {405} | refused
        elif is_there:
            done = DELETED if self._deletes else 200
            true = {WRONG: {400}, UNSURE: {done, 400}, RIGHT: {done}}[grade]
            if self._bodies.names and not self._is_named(request):
                true = {404} if grade == RIGHT else {400, 404}
            if self._runs_shield and grade and understood(b"".join(request.body))["shield_id"] != ENTRY_ID:
                true = true - {done} | {404}
            if self._runs_tool and grade and understood(b"".join(request.body))["tool_name"] != "current_time":
                true = {400, 404}
            if (
                self._queries_rag
                and grade
                and set(understood(b"".join(request.body))["vector_db_ids"]) - {VECTOR_DB_ID}
            ):
                true = {404} if grade == RIGHT else {400, 404}
            if self._adds_files and grade and files_in(understood(b"".join(request.body))) - {self._ids["file_id"]}:
                true = {404} if grade == RIGHT else {400, 404}
        else:
            true = {404, 405} if grade == RIGHT else {400, 404, 405}
        if self._route.file and dict(request.headers)[b"content-type"] != FORM_TYPE.encode():
            true = true - {200} | {400}
        named = {name for name, value in request.headers if value}
        if b"content-type" in named:
            true |= {415}
        return true | {409} if b"idempotency-key" in named and request.method == "POST" else true

    def _is_named(self, request: Raw) -> bool:
        """Return whether every id in the query and body of the request exists."""
        named: dict[str, Any] = {}
        if request.method == "GET" or self._route.query:
            query = request.target.partition(b"?")[2].decode(errors="replace")
            named = {name: given[0] for name, given in parse_qs(query, keep_blank_values=True).items()}
        if request.method == "POST":
            with suppress(ValueError):
                body = understood(b"".join(request.body))
                named |= body if isinstance(body, dict) else {}
        return all(named.get(name) in (None, self._ids[name]) for name in self._bodies.names)

    def _grade(self, body: bytes, query: bytes) -> int:
        by_query = self._bodies.by_query(parse_qs(query.decode(), keep_blank_values=True))
        if by_query is not None:
            return by_query
        if self._bodies.grade is None or (self._route.method == "GET" and not body.strip(b" \t\r\n")):
            return RIGHT
        if self._route.file:
            return RIGHT if body == encoded_form(self._bodies.valid[0]) else UNSURE
        try:
            return self._bodies.grade(understood(body), self._pending)
        except ValueError:
            return WRONG


def understood(body: bytes) -> Any:
    """Return the JSON a body holds. Raises ValueError for all that is none, or can't be kept as JSON in UTF-8."""
    try:
        value = strict_json(body.decode())
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # 1e999 is read as infinite
    return value


def quoted_all(identifier: str) -> str:
    return "".join(f"%{byte:02x}" for byte in identifier.encode())


@lru_cache(maxsize=1)
def is_no_number(body: bytes) -> bool:
    """Return the parsed body; reuse it where it equals the last one: the document comes thousands of times."""
    return isinstance(strict_json(body.decode()), dict | list | str | None)


def check_success(answer: Answered) -> None:
    """Check that the body is JSON, a page, the attachment, or a stream of JSON that ends as a turn ends."""
    if answer.headers["content-type"] == "application/json":
        assert is_no_number(answer.body)
        return
    if answer.headers["content-type"] == "text/plain":
        assert answer.body in (b"a file", CONTENT.encode())
        return
    if answer.headers["content-type"] == "text/html; charset=utf-8":
        assert answer.body.startswith(b"<!doctype html>")
        return
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    data = [event.rpartition("data: ")[2] for event in answer.body.decode().split("\n\n") if event]
    if data and data[-1] == "[DONE]":
        last = strict_json(data[-2])
        is_of_letta = last.get("message_type") == "usage_statistics"
        assert is_of_letta or last["object"] in ("chat.completion.chunk", "text_completion")
        return
    if not data:
        return  # to a client that received all
    events = [strict_json(event) for event in data]
    if "delta" in events[-1]:
        assert events[-1]["stop_reason"]
        return
    if "sequence_number" in events[-1]:
        assert events[-1]["type"] in ("response.completed", "response.incomplete")
        return
    last = events[-1]["event"]
    assert last.get("payload", last)["event_type"] in ("turn_complete", "turn_awaiting_input", "complete")


def named(route: Route) -> str:
    return f"{route.method} {route.path}"
