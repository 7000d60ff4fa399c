"""The routes of models, shields, toolgroups and providers, and the page that documents all routes.

Covers: functions/models, functions/shields, functions/tools, functions/server
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from functions.local.routes import ROUTES
from tests.support.server.asgi_client import Answered, Raw, Served, served, strict_json
from turnstone.adapters.models.offline.offline import OfflineInference
from turnstone.domain.errors import ModelFailed
from turnstone.http.document.openapi import openapi_document

MCP = {"provider_id": "model-context-protocol", "mcp_endpoint": {"uri": "https://10.0.0.1/mcp"}}
OWN = ["builtin::clock", "builtin::websearch", "builtin::wolfram_alpha", "builtin::rag"]
TOOLS = ["current_time", "web_search", "wolfram_alpha", "knowledge_search", "insert_into_memory"]
VOID = {"meta", "br", "link"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as serving:
        yield serving


def ids(answer: Answered) -> list[str]:
    assert answer.status == 200, answer
    return [entry["identifier"] for entry in answer.json()["data"]]


def deleted(server: Served, path: str) -> Answered:
    return server.client.send(Raw("DELETE", path.encode()))


def test_registered_objects_are_listed_beside_the_built_in_ones(server: Served) -> None:
    for name in ("z", "b/c", "offline"):
        assert server.client.post("/v1/models", {"model_id": name, "metadata": {"mine": True}}).status == 200
    models = server.client.get("/v1/models").json()["data"]
    assert [each["identifier"] for each in models if each["model_type"] == "llm"] == ["offline", "b/c", "z"]
    assert server.client.get("/v1/models/offline").json()["metadata"] == {"mine": True}
    assert deleted(server, "/v1/models/offline").status == 200
    assert server.client.get("/v1/models/offline").json()["metadata"] == {}
    for name in ("mcp::b", "mcp::a"):
        assert server.client.post("/v1/toolgroups", MCP | {"toolgroup_id": name}).json() is None
    assert ids(server.client.get("/v1/toolgroups")) == [*OWN, "mcp::a", "mcp::b"]
    assert ids(server.client.get("/v1/tools")) == TOOLS
    for name in ("two", "one"):
        assert server.client.post("/v1/shields", {"shield_id": name, "provider_shield_id": "guard"}).status == 200
    assert ids(server.client.get("/v1/shields")) == ["one", "two"]
    assert server.client.get("/v1/shields/one").json()["provider_resource_id"] == "guard"


def test_registered_objects_survive_the_server(tmp_path: Path) -> None:
    group = MCP | {"toolgroup_id": "mcp::a", "args": {"depth": 2}}
    with served(tmp_path) as before:
        before.client.post("/v1/toolgroups", group)
    with served(tmp_path) as after:
        assert after.client.get("/v1/toolgroups/mcp::a").json() == {
            "identifier": "mcp::a",
            "provider_resource_id": "mcp::a",
            "provider_id": "model-context-protocol",
            "type": "tool_group",
            "mcp_endpoint": {"uri": "https://10.0.0.1/mcp"},
            "args": {"depth": 2},
        }


def test_a_registered_model_is_found_while_the_model_server_is_away(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: OfflineInference) -> tuple[str, ...]:
        raise ModelFailed("the model server is away")

    server.client.post("/v1/models", {"model_id": "m"})
    monkeypatch.setattr(OfflineInference, "models", fail)
    statuses = [server.client.get(path).status for path in ("/v1/models/m", "/v1/models/n", "/v1/models")]
    assert statuses == [200, 502, 502]


@pytest.mark.parametrize("path", ["/v1/tools?toolgroup_id", "/v1/tool-runtime/list-tools?tool_group_id"])
@pytest.mark.parametrize("group", ["unknown", "builtin::code_interpreter", "builtin::clock/unknown"])
def test_a_group_without_tools_here_is_named_with_the_parameter(server: Served, path: str, group: str) -> None:
    answer = server.client.get(f"{path}={group}")
    (problem,) = answer.json()["error"]["detail"]["errors"]
    assert (answer.status, problem["loc"]) == (400, [path.partition("?")[2]])
    assert repr(group.partition("/")[0]) in problem["msg"]


WITHOUT_EFFECT: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/models", {"model_id": "m", "provider_id": "ollama"}, "provider_id"),
    ("/v1/models", {"model_id": "m", "metadata": {"context_tokens": 0}}, "metadata.context_tokens"),
    ("/v1/models", {"model_id": "m", "metadata": {"prices": {"input": 1}}}, "metadata.prices.output"),
    ("/v1/models", {"model_id": "m", "metadata": {"fallbacks": [{"provider": "x"}]}}, "metadata.fallbacks.0.provider"),
    ("/v1/toolgroups", MCP | {"toolgroup_id": "g", "provider_id": "tavily-search"}, "provider_id"),
    ("/v1/toolgroups", MCP | {"toolgroup_id": "g", "mcp_endpoint": None}, "mcp_endpoint"),
    ("/v1/toolgroups", MCP | {"toolgroup_id": "g/tool"}, "toolgroup_id"),
    ("/v1/toolgroups", MCP | {"toolgroup_id": "builtin::clock"}, "toolgroup_id"),
    ("/v1/toolgroups", {"toolgroup_id": "builtin::telepathy", "provider_id": "builtin"}, "toolgroup_id"),
    ("/v1/toolgroups", {"toolgroup_id": "builtin::photogen", "provider_id": "builtin"}, "toolgroup_id"),
    ("/v1/toolgroups", MCP | {"toolgroup_id": "builtin::clock", "provider_id": "builtin"}, "mcp_endpoint"),
    ("/v1/toolgroups", {"toolgroup_id": "builtin::clock", "provider_id": "builtin", "args": {"a": 1}}, "args"),
    ("/v1/shields", {"shield_id": "s", "provider_id": "nemo"}, "provider_id"),
    ("/v1/shields", {"shield_id": "s", "provider_id": "bedrock"}, "provider_shield_id"),
    (
        "/v1/shields",
        {
            "shield_id": "s",
            "provider_id": "bedrock",
            "provider_shield_id": "g",
            "params": {"checks": {"content_filter": ["HATE"]}},
        },
        "provider_shield_id",
    ),
    ("/v1/shields", {"shield_id": "s", "provider_id": "bedrock", "params": {"checks": {}}}, "params.checks"),
    (
        "/v1/shields",
        {"shield_id": "s", "provider_id": "bedrock", "provider_shield_id": "g", "params": {"threshold": 0.5}},
        "params",
    ),
    ("/v1/shields", {"shield_id": "s", "params": {"excluded": []}}, "params.excluded"),
    ("/v1/shields", {"shield_id": "s", "params": {"categories": ["S15"]}}, "params.categories.0"),
    ("/v1/shields", {"shield_id": "s", "params": {"on_failure": "shrug"}}, "params.on_failure"),
    ("/v1/shields", {"shield_id": "s", "provider_id": "pattern"}, "params"),
    ("/v1/shields", {"shield_id": "s", "provider_id": "pattern", "params": {"words": ["!"]}}, "params.words.0"),
    (
        "/v1/shields",
        {"shield_id": "s", "provider_id": "pattern", "params": {"patterns": ["a", "("]}},
        "params.patterns.1",
    ),
    (
        "/v1/shields",
        {"shield_id": "s", "provider_id": "pattern", "params": {"patterns": [r"(a)\1"]}},
        "params.patterns.0",
    ),
    (
        "/v1/shields",
        {"shield_id": "s", "provider_id": "pattern", "provider_shield_id": "g", "params": {"words": ["a"]}},
        "provider_shield_id",
    ),
]


@pytest.mark.parametrize(("path", "body", "field"), WITHOUT_EFFECT)
def test_a_field_without_effect_is_refused_by_name(server: Served, path: str, body: dict[str, Any], field: str) -> None:
    before = server.marks()
    answer = server.client.post(path, body)
    assert answer.status == 400
    assert answer.refusal().startswith(f"{field}: ")
    assert server.marks() == before


def test_a_built_in_object_may_be_registered_unchanged_and_unregistered_and_stays(server: Served) -> None:
    body = {"toolgroup_id": "builtin::clock", "provider_id": "builtin"}
    assert server.client.post("/v1/toolgroups", body).status == 200
    assert ids(server.client.get("/v1/toolgroups")) == OWN
    assert deleted(server, "/v1/toolgroups/builtin::clock").status == 200
    assert ids(server.client.get("/v1/toolgroups")) == OWN
    assert deleted(server, "/v1/models/offline").status == 404
    assert deleted(server, "/v1/toolgroups/builtin::unknown").status == 404


def test_a_set_up_script_changes_nothing_of_a_tenants_own_group(server: Served) -> None:
    code = {"toolgroup_id": "builtin::code_interpreter", "provider_id": "code-interpreter"}
    assert server.client.post("/v1/toolgroups", code).status == 200
    assert server.client.get("/v1/toolgroups/builtin::code_interpreter").status == 404, "it is off here, and stays so"
    assert deleted(server, "/v1/toolgroups/builtin::code_interpreter").status == 200
    assert server.client.post("/v1/toolgroups", MCP | {"toolgroup_id": "builtin::code_interpreter"}).status == 200
    assert server.client.post("/v1/toolgroups", code).status == 409
    assert "builtin::code_interpreter" in ids(server.client.get("/v1/toolgroups"))
    assert deleted(server, "/v1/toolgroups/builtin::code_interpreter").status == 200
    assert ids(server.client.get("/v1/toolgroups")) == OWN


def test_tools_of_an_unreachable_server_are_left_out_of_all_and_refused_by_name(server: Served) -> None:
    server.client.post("/v1/toolgroups", MCP | {"toolgroup_id": "mcp::a"})
    assert "current_time" in ids(server.client.get("/v1/tools"))
    for path in (
        "/v1/tools?toolgroup_id=mcp::a",
        "/v1/tool-runtime/list-tools?tool_group_id=mcp::a",
        "/v1/tool-runtime/list-tools?mcp_endpoint%5Buri%5D=https://10.0.0.1/mcp",
    ):
        answer = server.client.get(path)
        assert (answer.status, "10.0.0.1" in answer.json()["detail"]) == (502, True)


@pytest.mark.parametrize(
    "query", ["mcp_endpoint=a", "mcp_endpoint%5Buri%5D=ftp://a", "mcp_endpoint%5Burl%5D=https://a"]
)
def test_an_mcp_endpoint_that_is_no_address_is_refused(server: Served, query: str) -> None:
    answer = server.client.get(f"/v1/tool-runtime/list-tools?{query}")
    assert (answer.status, "mcp_endpoint" in answer.refusal()) == (400, True)


def test_a_tool_is_run_outside_of_turns(server: Served) -> None:
    for name in ("current_time", "builtin::clock/current_time"):
        answer = server.client.post(
            "/v1/tool-runtime/invoke", {"tool_name": name, "kwargs": {"timezone": "Asia/Tokyo"}}
        )
        assert (answer.status, answer.json()["content"][-6:], answer.json()["error_code"]) == (200, "+09:00", None)


def test_a_failed_tool_has_an_error_in_its_answer(server: Served) -> None:
    for name, kwargs in (("current_time", {"timezone": "Nowhere"}), ("brave_search", {"query": "tea"})):
        answer = server.client.post("/v1/tool-runtime/invoke", {"tool_name": name, "kwargs": kwargs}).json()
        assert (answer["error_code"], answer["error_message"] == answer["content"]) == (1, True)


@pytest.mark.parametrize(("name", "status"), [("fly", 404), ("builtin::clock/fly", 404), ("nobodys/fly", 404)])
def test_a_missing_tool_is_not_found(server: Served, name: str, status: int) -> None:
    assert server.client.post("/v1/tool-runtime/invoke", {"tool_name": name, "kwargs": {}}).status == status


def test_every_provider_that_is_shown_is_listed(server: Served) -> None:
    server.client.post("/v1/toolgroups", MCP | {"toolgroup_id": "mcp::a"})
    server.client.post("/v1/shields", {"shield_id": "s"})
    shown = {
        entry["provider_id"]
        for kind in ("models", "toolgroups", "tools", "shields")
        for entry in server.client.get(f"/v1/{kind}").json()["data"]
    }
    listed = {provider["provider_id"]: provider for provider in server.client.get("/v1/providers").json()["data"]}
    assert shown <= set(listed)
    for name, provider in listed.items():
        assert server.client.get(f"/v1/providers/{name}").json() == provider
    assert {name for name, provider in listed.items() if provider["health"]["status"] != "OK"} == {
        "model-context-protocol",
        "llama-guard",
        "bedrock",
    }


def test_the_health_of_a_model_server_is_not_claimed_without_a_check(tmp_path: Path) -> None:
    with served(tmp_path, model_url="http://user:secret@127.0.0.1:1/v1") as serving:
        answer = serving.client.get("/v1/providers/default")
    assert answer.json()["provider_type"] == "remote::openai-compatible"
    assert answer.json()["health"]["status"] == "Not Implemented"
    assert b"secret" not in answer.body


@pytest.mark.parametrize("version", ["0.1.0", "0.1", "0.2.12", "0.3.5", "0.3.0a1", " 0.2.20 ", ""])
def test_a_client_of_a_supported_version_is_served(server: Served, version: str) -> None:
    assert tools_listed_by(server, version).status == 200


@pytest.mark.parametrize("version", ["0.4.0", "0.0.63", "1.2.0", "0.20.1", "0", "0.2x", "garbage", "0..2", "²"])
def test_a_client_of_another_version_is_refused(server: Served, version: str) -> None:
    answer = tools_listed_by(server, version)
    assert answer.status == 426
    assert "0.1 to 0.3" in answer.refusal()


def tools_listed_by(server: Served, version: str) -> Answered:
    header = (b"X-LlamaStack-Client-Version", version.encode())
    return server.client.send(Raw("GET", b"/v1/tools", headers=(header,)))


class Page(HTMLParser):
    """The references and anchors of a page; its tags have to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.references: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert not set(self._open) - {"html", "body"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.anchors += [value or "" for name, value in attrs if name == "id"]
        self.references += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.mark.parametrize("path", ["/docs", "/v1/docs"])
def test_the_page_documents_every_route_and_loads_nothing_from_elsewhere(server: Served, path: str) -> None:
    answer = server.client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    text = answer.body.decode()
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    for kind in ("script", "style"):
        (held,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        assert policy.pop(f"{kind}-src") == f"'sha256-{b64encode(sha256(held.encode()).digest()).decode()}'"
    assert policy.pop("connect-src") == "'self'"
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert policy == dict.fromkeys(["default-src", "base-uri", "form-action", "frame-ancestors"], "'none'")
    page = Page(text)
    assert not page.tags & {"link", "img", "iframe", "form"}
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.anchors) == len(set(page.anchors))
    assert {reference.removeprefix("#") for reference in page.references} - {"openapi.json"} <= set(page.anchors)
    for route in ROUTES:
        for shown in route.paths if route.reply else ():
            assert f"<code>{route.method} {shown}</code>" in text or f"Also <code>{shown}</code>" in text
    assert set(openapi_document(ROUTES)["components"]["schemas"]) <= set(page.anchors)


def test_text_of_the_document_is_escaped_in_the_page() -> None:
    from turnstone.http.document.page import api_page

    document = openapi_document(ROUTES)
    document["info"] = document["info"] | {"description": "<script>alert('x')</script> & `a<b`"}
    text = api_page(document)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "<code>a&lt;b</code>" in text


@pytest.mark.parametrize("path", ["/openapi.json", "/v1/openapi.json"])
def test_the_served_document_is_the_printed_one(server: Served, path: str) -> None:
    answer = server.client.get(path)
    assert answer.headers["content-type"] == "application/json"
    assert strict_json(answer.body.decode()) == openapi_document(ROUTES)


def test_an_unserved_method_is_named_in_a_501_without_a_retry(server: Served) -> None:
    answer = server.client.post("/v1/inference/batch-completion", {})
    assert (answer.status, answer.headers["x-should-retry"]) == (501, "false")
    named = r"inference\.batch_completion \(POST /v1/inference/batch-completion\); .*/chat/completions"
    assert re.search(named, answer.refusal())
    assert server.client.get("/v1beta/datasets/a/b").status == 501
    assert server.client.get("/v1/inference/batch-completion").status == 405
    assert server.client.get("/v1beta/nothing").status == 404
