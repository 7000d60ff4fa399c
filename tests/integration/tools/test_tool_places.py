"""The kinds of tools of each environment: keys of its variables or secrets, addresses and models of its file.

Covers: bootstrap/tools, adapters/tools/factory
"""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.models.image_models import KEY as IMAGE_KEY
from tests.fakes.models.image_models import PNG, openai_images
from tests.fakes.tools.hostile_mcp_server import HostileMcpServer, Reply, decent
from tests.fakes.tools.search_services import KEY, tavily
from tests.fakes.tools.tool_calls import ASKER, invocation
from tests.fakes.web.web_server import WebServer, json_answer
from turnstone.adapters.machine import machine_memory
from turnstone.adapters.tools.code import code_interpreter, python_calls
from turnstone.adapters.tools.code.call_limit import CallLimit
from turnstone.adapters.tools.factory import EveryToolKind
from turnstone.bootstrap.catalogue import build_catalogue
from turnstone.bootstrap.models import ProviderDeps
from turnstone.bootstrap.tools import lambda_tool_kinds, local_tool_kinds
from turnstone.domain.errors import AddressForbidden, ToolFailed, ToolgroupUnavailable, Unsupported
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.registry.registry import BUILTIN, MCP, McpEndpoint, Toolgroup
from turnstone.domain.tools.agent_tools import RemoteExecution
from turnstone.domain.tools.tool_runs import ToolAsker, ToolOptions
from turnstone.domain.values.content import text_of
from turnstone.settings.config import InvalidSettings, LambdaSettings
from turnstone.settings.local_settings import LocalSettings

PROVIDERS = """
registry = "closed"
[providers.p]
type = "openai"
url = "http://127.0.0.1:1/v1"
[providers.b]
type = "bedrock"
[providers.o]
type = "offline"
"""


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic_s(self) -> float:
        return 0.0


def local(text: str, **settings: Any) -> EveryToolKind:
    return local_tool_kinds(
        LocalSettings(**settings), build_catalogue(PROVIDERS + text, None, "api_key_env"), StoppedClock()
    )


def on_aws(text: str, secrets: dict[str, str], **settings: Any) -> EveryToolKind:
    catalogue = build_catalogue(PROVIDERS + text, None, "api_key_secret")
    deps = ProviderDeps(
        60, lambda name, entry: secrets[str(entry.api_key_secret)], lambda: pytest.fail("AWS is called")
    )
    on_lambda = LambdaSettings(table="t", bucket="b", **settings)
    return lambda_tool_kinds(on_lambda, catalogue, StoppedClock(), deps, secrets.__getitem__)


def run(kinds: EveryToolKind, group: str, provider_data: dict[str, Any] | None = None) -> Any:
    toolgroup = Toolgroup(identifier=group, provider_resource_id=group, provider_id=BUILTIN)
    call = invocation("tool", {"query": "rain in spain"}, provider_data=provider_data)
    return kinds.build(toolgroup).invoke(call)


def test_a_server_without_a_file_has_the_clock_and_tools_that_use_the_callers_keys() -> None:
    kinds = local_tool_kinds(LocalSettings(), None, StoppedClock())
    assert kinds.builtin() == ("builtin::clock", "builtin::websearch", "builtin::wolfram_alpha")
    with pytest.raises(ToolFailed, match="requires a key"):
        run(kinds, "builtin::websearch")
    with pytest.raises(Unsupported, match="is off on this server"):
        run(kinds, "builtin::photogen")


def test_keys_are_those_of_variables_here_and_of_secrets_on_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TAVILY_KEY", KEY)
    with WebServer(tavily) as server:
        text = f'[tools.websearch]\nengine = "tavily"\nurl = "{server.url}/search"\n'
        here = local(f'{text}api_key_env = "MY_TAVILY_KEY"')
        there = on_aws(f'{text}api_key_secret = "prod/tavily"', {"prod/tavily": KEY})
        for kinds in (here, there):
            assert len(json.loads(run(kinds, "builtin::websearch").content)["top_k"]) == 3
        assert len(server.requests) == 2


def test_agents_may_not_call_the_address_of_an_operators_service() -> None:
    with WebServer(lambda _: json_answer({})) as server:
        kinds = local(f'[tools.wolfram_alpha]\nurl = "{server.url}/v2/query"')
        with pytest.raises(ToolFailed, match="holds no result"):
            run(kinds, "builtin::wolfram_alpha", {"wolfram_alpha_api_key": KEY})
        assert len(server.requests) == 1
        options = ToolOptions(remote_execution=RemoteExecution(url=server.url, method="GET"))
        with pytest.raises(ToolFailed, match="TURNSTONE_FETCH_ALLOW"):
            kinds.remote().invoke(invocation("mine", {}, options))
        assert len(server.requests) == 1
        allowing = local("", fetch_allow=f"127.0.0.1:{server.port}")
        assert allowing.remote().invoke(invocation("mine", {}, options)).content == "{}"


def test_an_image_is_made_by_a_provider_of_the_file_with_its_key_or_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_IMAGE_KEY", IMAGE_KEY)
    photogen = '[tools.photogen]\nprovider = "i"\nmodel = "gpt-image-1"\n'
    with WebServer(openai_images) as server:
        text = f'{photogen}[providers.i]\ntype = "openai"\nurl = "{server.url}/v1"\n'
        here = local(f'{text}api_key_env = "MY_IMAGE_KEY"')
        there = on_aws(f'{text}api_key_secret = "prod/i"', {"prod/i": "wrong"})
        assert run(here, "builtin::photogen").files[0].body == PNG
        assert run(there, "builtin::photogen", {"i_api_key": IMAGE_KEY}).files[0].body == PNG
    assert here.builtin()[3:] == there.builtin()[3:] == ("builtin::photogen",)


def test_bedrock_makes_images_if_the_file_names_it_and_is_not_called_before() -> None:
    kinds = on_aws('[tools.photogen]\nprovider = "b"\nmodel = "amazon.nova-canvas-v1:0"', {})
    group = Toolgroup(identifier="x", provider_resource_id="builtin::photogen", provider_id=BUILTIN)
    asker = ToolAsker("acme", ProviderData({}))
    assert [tool.name for tool in kinds.build(group).tools(asker)] == ["photogen"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[tools.websearch]\napi_key_env = "NOT_SET"', "tools.websearch.api_key_env: NOT_SET is not set"),
        ('[tools.wolfram_alpha]\napi_key_env = "NOT_SET"', "tools.wolfram_alpha.api_key_env: NOT_SET is not set"),
        ('[tools.websearch]\napi_key_secret = "x"', "tools.websearch: its key is named by api_key_env here"),
        ('[tools.wolfram_alpha]\napi_key_secret = "x"', "tools.wolfram_alpha: its key is named by api_key_env here"),
        ('[tools.websearch]\nurl = "http://me:pw@proxy.test/"', "tools.websearch.url: .*it holds a user's name"),
        ('[tools.wolfram_alpha]\nurl = "https://proxy.test:99999"', "tools.wolfram_alpha.url: .*port"),
        ('[tools.photogen]\nprovider = "q"\nmodel = "m"', "tools.photogen: there is no provider 'q'"),
        ('[tools.photogen]\nprovider = "default"\nmodel = "m"', "tools.photogen.provider: 'default' makes no images"),
        ('[tools.photogen]\nprovider = "o"\nmodel = "m"', "tools.photogen.provider: 'o' makes no images"),
        ('[tools.photogen]\nprovider = "b"\nmodel = "m"', "tools.photogen.model: how 'm' of Bedrock"),
        (
            '[tools.photogen]\nprovider = "b"\nmodel = "stability.sd3-5-large-v1:0"\nsize = "1000x999"',
            "tools.photogen.size: 'stability.sd3-5-large-v1:0' makes images of these ratios",
        ),
    ],
)
def test_an_unavailable_entry_of_the_file_is_refused_at_the_start(text: str, problem: str) -> None:
    with pytest.raises(InvalidSettings, match=f"TURNSTONE_CONFIG: .*{problem}") as caught:
        local(text)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[tools.code_interpreter]\nruns = "here"', "tools.code_interpreter.runs: must be agentcore or off on AWS"),
        ('[tools.python_tools]\nruns = "here"', "tools.python_tools.runs: must be agentcore or off on AWS"),
        ('[tools.websearch]\napi_key_env = "X"', "tools.websearch: its key is named by api_key_secret here"),
    ],
)
def test_an_entry_for_other_environments_is_refused_on_aws(text: str, problem: str) -> None:
    with pytest.raises(InvalidSettings, match=problem):
        on_aws(text, {})


def test_tools_are_listed_without_a_request() -> None:
    kinds = local("")
    for name in kinds.builtin():
        group = Toolgroup(identifier=name, provider_resource_id=name, provider_id=BUILTIN)
        assert kinds.build(group).tools(ASKER)


def test_an_mcp_server_is_called_only_if_it_is_public_or_allowed_and_connections_are_closed_in_the_end() -> None:
    with WebServer(lambda _: json_answer({})) as server:
        kinds = local("")
        endpoint = McpEndpoint(uri=f"{server.url}/mcp")
        group = Toolgroup(identifier="mcp::x", provider_resource_id="mcp::x", provider_id=MCP, mcp_endpoint=endpoint)
        box = kinds.build(group)
        before = set(threading.enumerate())
        with pytest.raises(ToolgroupUnavailable, match=r"mcp::x"):
            box.tools(ASKER)
        kinds.close()
        assert server.requests == []
        assert set(threading.enumerate()) <= before
    kinds.close()


def mcp_group(name: str, uri: str) -> Toolgroup:
    endpoint = McpEndpoint(uri=uri)
    return Toolgroup(identifier=name, provider_resource_id=name, provider_id=MCP, mcp_endpoint=endpoint)


def wiki_at(uri: str) -> str:
    return f'[toolgroups."mcp::wiki"]\nmcp_endpoint = "{uri}"\n'


@pytest.mark.parametrize("environment", ["here", "on AWS"])
def test_a_private_mcp_server_of_the_file_needs_no_second_permission(environment: str) -> None:
    with HostileMcpServer(decent) as server:
        kinds = local(wiki_at(server.url())) if environment == "here" else on_aws(wiki_at(server.url()), {})
        box = kinds.build(mcp_group("mcp::wiki", server.url()))
        assert [tool.name for tool in box.tools(ASKER)] == ["echo"]
        assert text_of(box.invoke(invocation("echo", {})).content) == "echoed"
        kinds.close()


def test_a_tenants_toolgroup_does_not_have_the_permission_of_the_files() -> None:
    with HostileMcpServer(decent) as server, HostileMcpServer(decent) as other:
        kinds = local(wiki_at(server.url()))
        assert kinds.build(mcp_group("mcp::wiki", server.url())).tools(ASKER)
        requests_before = len(server.requests)
        for name, uri in (
            ("mcp::own", server.url()),  # the same address in words of a tenant, while a connection to it is kept
            ("mcp::wiki", server.url("/other")),
            ("mcp::wiki", other.url()),
            (MCP, server.url()),
        ):
            with pytest.raises(AddressForbidden, match="it is not https"):
                kinds.build(mcp_group(name, uri)).tools(ASKER)
        kinds.close()
        assert (len(server.requests), other.requests) == (requests_before, [])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_server_of_the_file_may_not_redirect_elsewhere(status: int) -> None:
    with HostileMcpServer(decent) as elsewhere:
        headers = (("location", elsewhere.url()),)
        with HostileMcpServer(lambda _: Reply(status=status, headers=headers)) as server:
            kinds = local(wiki_at(server.url()))
            with pytest.raises(ToolgroupUnavailable, match="another address"):
                kinds.build(mcp_group("mcp::wiki", server.url())).tools(ASKER)
            kinds.close()
        assert elsewhere.requests == []


def test_a_name_of_the_file_is_no_way_to_the_metadata_of_a_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "http://wiki.internal/mcp"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("169.254.169.254", 80))])
    kinds = local(wiki_at(uri))
    with pytest.raises(ToolgroupUnavailable, match="no public address"):
        kinds.build(mcp_group("mcp::wiki", uri)).tools(ASKER)
    kinds.close()


@pytest.mark.parametrize("address", ["wiki.example/mcp", "https://user:s3cret@wiki.example/mcp", "ftp://wiki.example"])
def test_an_invalid_address_of_the_file_is_refused_at_the_start(address: str) -> None:
    with pytest.raises(InvalidSettings, match=r"toolgroups\.mcp::wiki\.mcp_endpoint: ") as refused:
        local(wiki_at(address))
    assert "s3cret" not in str(refused.value)


def test_code_is_run_in_the_environment_of_the_file() -> None:
    here = local('[tools.code_interpreter]\nruns = "here"')
    there = on_aws('[tools.code_interpreter]\nruns = "agentcore"', {})
    assert here.builtin()[3:] == there.builtin()[3:] == ("builtin::code_interpreter",)
    group = Toolgroup(identifier="c", provider_resource_id="builtin::code_interpreter", provider_id=BUILTIN)
    assert [tool.name for tool in there.build(group).tools(ASKER)] == ["code_interpreter"]
    assert here.build(group) is here.build(group)


CODE = Toolgroup(identifier="c", provider_resource_id="builtin::code_interpreter", provider_id=BUILTIN)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, int | None]]:
    """The code interpreters that were made: kind of runner, timeout in seconds, and calls at a time."""
    made: list[tuple[str, float, int | None]] = []

    def make(runner: object, timeout_s: float, limit: CallLimit | None) -> None:
        made.append((type(runner).__name__, timeout_s, limit and limit.most))

    monkeypatch.setattr(code_interpreter, "CodeInterpreter", make)
    monkeypatch.setattr(machine_memory, "usable_memory_bytes", lambda: 8 * 2**30)
    return made


def test_code_may_run_for_the_timeout_of_the_file(made: list[tuple[str, float, int | None]]) -> None:
    local('[tools.code_interpreter]\nruns = "here"\ntimeout_seconds = 7').build(CODE)
    on_aws('[tools.code_interpreter]\nruns = "agentcore"', {}).build(CODE)
    assert made == [("JailedCode", 7, 6), ("AgentCoreCode", 30, None)]


@pytest.mark.parametrize(
    ("setting", "processes", "calls"),
    [
        ("", 1, 6),
        ("", 2, 3),
        ("", 4, 1),
        ("memory_mb = 64", 1, 25),
        ("memory_mb = 9000", 1, 1),
        ("calls_at_a_time = 40", 1, 40),
        ("calls_at_a_time = 9", 4, 2),
    ],
)
def test_calls_at_a_time_follow_from_half_the_memory_or_the_file_and_are_shared_by_processes(
    made: list[tuple[str, float, int | None]], setting: str, processes: int, calls: int
) -> None:
    local(f'[tools.code_interpreter]\nruns = "here"\n{setting}', processes=processes).build(CODE)
    assert made == [("JailedCode", 30, calls)]


@pytest.mark.parametrize(
    ("setting", "processes", "problem"),
    [
        ("calls_at_a_time = 3", 4, r"calls_at_a_time: must be at least TURNSTONE_PROCESSES, which is 4"),
        (
            "memory_mb = 9000",
            2,
            r"memory_mb: half of the memory has room for 1 calls at a time, .* set calls_at_a_time",
        ),
    ],
)
def test_fewer_calls_than_processes_are_refused_at_the_start(
    made: list[tuple[str, float, int | None]], setting: str, processes: int, problem: str
) -> None:
    with pytest.raises(InvalidSettings, match=problem):
        local(f'[tools.code_interpreter]\nruns = "here"\n{setting}', processes=processes)


@pytest.mark.parametrize("setting", ["memory_mb = 64", "calls_at_a_time = 4"])
def test_a_setting_without_effect_on_agentcore_is_refused(setting: str) -> None:
    with pytest.raises(InvalidSettings, match=f"{setting.split()[0]}: has no effect.*; leave it out"):
        on_aws(f'[tools.code_interpreter]\nruns = "agentcore"\n{setting}', {})


def test_tools_of_python_run_in_the_environment_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, float, int | None]] = []

    def make(runner: object, timeout_s: float, limit: CallLimit | None) -> object:
        made.append((type(runner).__name__, timeout_s, limit and limit.most))
        return runner

    monkeypatch.setattr(python_calls, "PythonCalls", make)
    monkeypatch.setattr(machine_memory, "usable_memory_bytes", lambda: 8 * 2**30)
    code = '[tools.code_interpreter]\nruns = "here"\n'
    assert local(code).python() is None
    assert on_aws("", {}).python() is None
    here = local('[tools.python_tools]\nruns = "here"\ntimeout_seconds = 7')
    assert here.python() is here.python() is not None
    both = local(f'{code}[tools.python_tools]\nruns = "here"')
    both.python()
    on_aws('[tools.python_tools]\nruns = "agentcore"', {}).python()
    assert made == [("JailedCode", 7, 6), ("JailedCode", 30, 3), ("AgentCoreCode", 30, None)]
    with pytest.raises(
        InvalidSettings, match=r"tools\.code_interpreter\.memory_mb: a quarter of the memory has room for 3 "
    ):
        local(f'{code}[tools.python_tools]\nruns = "here"', processes=4)
