"""Building of the kinds of toolgroups, on one machine and on AWS."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from turnstone.adapters.tools.factory import EveryToolKind, ToolDependencies
from turnstone.domain.errors import FetchRefused
from turnstone.settings.config import InvalidFile, text_of_variable

if TYPE_CHECKING:
    from pathlib import Path

    from turnstone.adapters.fetching.allowing import Allowed
    from turnstone.adapters.fetching.fetcher import GuardedFetcher
    from turnstone.adapters.tools.code.code_runs import CodeRunner
    from turnstone.adapters.tools.images.images import ImageModel
    from turnstone.adapters.tools.mcp.mcp_connections import McpConnections
    from turnstone.adapters.tools.web.json_service import Keys
    from turnstone.bootstrap.models import ProviderDeps
    from turnstone.domain.registry.catalogue import BedrockProvider, Catalogue, OpenAIProvider
    from turnstone.domain.registry.registry import Toolgroup
    from turnstone.domain.registry.tool_settings import (
        CodeInterpreterSettings,
        PhotogenSettings,
        PythonToolSettings,
        ToolSettings,
    )
    from turnstone.ports.system import Clock
    from turnstone.ports.tools import PythonRunner, Toolbox
    from turnstone.settings.config import LambdaSettings, Settings
    from turnstone.settings.local_settings import LocalSettings

log = logging.getLogger(__name__)
# in addition to the memory of the code: the files in its folder, its output, and its two other processes
CODE_CALL_OVERHEAD_MB = 96
CODE_INTERPRETER, PYTHON_TOOLS = "code_interpreter", "python_tools"


class ToolEnvironment(NamedTuple):
    """The environment of tools.

    Attributes:
        catalogue: the operator's file, None if there is none.
        deps: dependencies of the file's providers.
        keys: returns the key in the variable or secret of a name.
        hidden: folders that a model's code must not see.
        processes: number of processes that share the machine's resources.
    """

    settings: Settings
    catalogue: Catalogue | None
    clock: Clock
    deps: ProviderDeps
    keys: Keys
    hidden: tuple[Path, ...] = ()
    processes: int = 1


def local_tool_kinds(settings: LocalSettings, catalogue: Catalogue | None, clock: Clock) -> EveryToolKind:
    """Return every kind on one machine. Raises InvalidSettings if the file requires something unavailable."""
    from turnstone.bootstrap.models import local_provider_deps

    named = {}
    if catalogue is not None:
        configured = catalogue.tools
        named = {"websearch": configured.websearch.api_key_env, "wolfram_alpha": configured.wolfram_alpha.api_key_env}
    for name, variable in named.items():
        if variable is not None and text_of_variable(variable) is None:
            raise InvalidFile(f"tools.{name}.api_key_env: {variable} is not set")
    hidden = (settings.data_dir,)
    deps = local_provider_deps(settings)
    environment = ToolEnvironment(settings, catalogue, clock, deps, text_of_variable, hidden, settings.processes)
    return build_tool_kinds(environment)


def lambda_tool_kinds(
    settings: LambdaSettings, catalogue: Catalogue | None, clock: Clock, deps: ProviderDeps, secret: Keys
) -> EveryToolKind:
    """Return every kind on AWS; secrets are read at their first use. Raises InvalidSettings."""
    if catalogue is not None:
        for name in (CODE_INTERPRETER, PYTHON_TOOLS):
            if getattr(catalogue.tools, name).runs == "here":
                raise InvalidFile(f"tools.{name}.runs: must be agentcore or off on AWS")
    return build_tool_kinds(ToolEnvironment(settings, catalogue, clock, deps, secret))


def build_tool_kinds(environment: ToolEnvironment) -> EveryToolKind:
    """Return every kind. Raises InvalidSettings if the file requires something unavailable here."""
    image_model: Callable[[], ImageModel] | None = None
    code_interpreter: Callable[[], Toolbox] | None = None
    python: Callable[[], PythonRunner] | None = None
    allowed = cache(partial(_allowed, environment.settings))
    if environment.catalogue is not None:
        configured = environment.catalogue.tools
        if configured.photogen is not None:
            image_model = _image_model(configured.photogen, environment.catalogue, environment.deps)
        if configured.code_interpreter.runs != "off":
            calls = _calls_here(environment, CODE_INTERPRETER)
            code_interpreter = partial(_make_code_interpreter, environment, configured.code_interpreter, calls)
        if configured.python_tools.runs != "off":
            calls = _calls_here(environment, PYTHON_TOOLS)
            python = partial(_make_python, environment, configured.python_tools, calls)
        _refuse_wrong_addresses(environment.catalogue, allowed)
    mcp = _McpServers(
        allowed, environment.catalogue.configured_toolgroups() if environment.catalogue is not None else {}
    )
    dependencies = ToolDependencies(
        settings=partial(_settings_of, environment.catalogue),
        clock=environment.clock,
        keys=environment.keys,
        fetcher=cache(partial(_fetcher, allowed)),
        image_model=image_model,
        mcp=mcp.toolbox,
        code_interpreter=code_interpreter,
        close=mcp.close,
        python=python,
    )
    return EveryToolKind(dependencies)


def _refuse_wrong_addresses(catalogue: Catalogue, allowed: Callable[[], Allowed]) -> None:
    """Raise InvalidSettings for an address of the operator's file that no request can be sent to."""
    configured = catalogue.tools
    addresses = {
        "tools.websearch.url": configured.websearch.url,
        "tools.wolfram_alpha.url": configured.wolfram_alpha.url,
    }
    named = {f"toolgroups.{name}.mcp_endpoint": entry.mcp_endpoint for name, entry in catalogue.toolgroups.items()}
    for where, url in {**addresses, **named}.items():
        try:
            if url is not None:
                allowed().with_url(url)
        except FetchRefused as refused:
            raise InvalidFile(f"{where}: {refused}") from refused


def _settings_of(catalogue: Catalogue | None) -> ToolSettings:
    if catalogue is not None:
        return catalogue.tools
    from turnstone.domain.registry.tool_settings import ToolSettings  # only where a tool has settings

    return ToolSettings.model_construct()


def _allowed(settings: Settings) -> Allowed:
    from turnstone.adapters.fetching.allowing import Allowed

    return Allowed.of(settings.fetch_allow)


def _fetcher(allowed: Callable[[], Allowed], url: str | None) -> GuardedFetcher:
    """Return a client for addresses outside; an operator's `url` is allowed to its own tool only, not to agents."""
    from turnstone.adapters.fetching.fetcher import GuardedFetcher  # urllib3: only where something is fetched

    return GuardedFetcher(allowed() if url is None else allowed().with_url(url))


def _image_model(settings: PhotogenSettings, catalogue: Catalogue, deps: ProviderDeps) -> Callable[[], ImageModel]:
    """Return the factory of the model of images. Raises InvalidSettings if the provider makes none."""
    entry = catalogue.providers.get(settings.provider)
    if entry is None or entry.type == "offline":
        raise InvalidFile(f"tools.photogen.provider: {settings.provider!r} makes no images")
    match entry.type:
        case "openai":
            return partial(_openai_images, settings, entry, deps)
        case "bedrock":
            from turnstone.adapters.tools.images.bedrock_image_bodies import body_of

            try:
                body_of(settings.model, settings.size)
            except ValueError as wrong:
                raise InvalidFile(f"tools.photogen.{wrong}") from wrong
            return partial(_bedrock_images, settings, entry, deps)
        case _:
            assert_never(entry)


def _openai_images(settings: PhotogenSettings, entry: OpenAIProvider, deps: ProviderDeps) -> ImageModel:
    from turnstone.adapters.tools.images.openai_images import (
        OpenAICompatibleImages,  # urllib3: only where images are made
    )

    url, access = deps.openai_access(settings.provider, entry)
    timeout_s = entry.timeout_seconds or deps.timeout_s
    return OpenAICompatibleImages(url, access, settings.model, settings.size, timeout_s)


def _bedrock_images(settings: PhotogenSettings, entry: BedrockProvider, deps: ProviderDeps) -> ImageModel:
    clients = deps.aws()
    from turnstone.adapters.models.bedrock.bedrock_client import (
        build_bedrock_client,  # botocore's parsers: only where it is called
    )
    from turnstone.adapters.tools.images.bedrock_images import BedrockImages

    timeout_s = entry.timeout_seconds or deps.timeout_s
    client = cache(partial(build_bedrock_client, clients, entry.region, timeout_s))
    return BedrockImages(client, settings.model, settings.size)


class _McpServers:
    """The connections to MCP servers, created at the first use of one."""

    def __init__(self, allowed: Callable[[], Allowed], configured: Mapping[str, Toolgroup]) -> None:
        """Take the toolgroups of the operator's file, whose servers are allowed without further settings."""
        self._allowed = allowed
        self._configured = configured
        self._lock = Lock()
        self._connections: McpConnections | None = None

    def toolbox(self, group: Toolgroup) -> Toolbox:
        from turnstone.adapters.tools.mcp.mcp import McpToolbox
        from turnstone.adapters.tools.mcp.mcp_guarded import guarded_connections

        with self._lock:
            if self._connections is None:
                self._connections = guarded_connections(self._allowed())
        is_configured = self._configured.get(group.identifier) == group  # a tenant's group with the same name differs
        return McpToolbox(group, self._connections, is_configured=is_configured)

    def close(self) -> None:
        with self._lock:
            if self._connections is not None:
                self._connections.close()


def _calls_here(environment: ToolEnvironment, name: str) -> int | None:
    """Return the limit of calls at a time for one of the processes, None where they run elsewhere.

    Raises InvalidSettings if the machine's memory is too small.
    """
    from turnstone.adapters.machine.machine_memory import usable_memory_bytes  # only where code is run

    tools = _settings_of(environment.catalogue)
    settings: CodeInterpreterSettings = getattr(tools, name)
    if settings.runs != "here":
        return None
    processes, calls = environment.processes, settings.calls_at_a_time
    if calls is None:
        usable_bytes = usable_memory_bytes()
        kinds = sum(each.runs == "here" for each in (tools.code_interpreter, tools.python_tools))
        share_mb = None if usable_bytes is None else usable_bytes // 2 // kinds // 2**20
        calls = 1 if share_mb is None else max(1, share_mb // (settings.memory_mb + CODE_CALL_OVERHEAD_MB))
        if calls < processes:
            share = "half" if kinds == 1 else "a quarter"
            room = f"{share} of the memory has room for {calls} calls at a time, and TURNSTONE_PROCESSES is {processes}"
            raise InvalidFile(f"tools.{name}.memory_mb: {room}; lower either, or set calls_at_a_time")
    elif calls < processes:
        raise InvalidFile(f"tools.{name}.calls_at_a_time: must be at least TURNSTONE_PROCESSES, which is {processes}")
    log.info("calls at a time of %s: %d in each process", name, calls // processes)
    return calls // processes


def _make_code_interpreter(
    environment: ToolEnvironment, settings: CodeInterpreterSettings, calls: int | None
) -> Toolbox:
    from turnstone.adapters.tools.code.call_limit import CallLimit
    from turnstone.adapters.tools.code.code_interpreter import CodeInterpreter

    limit = None if calls is None else CallLimit(calls)
    return CodeInterpreter(_code_runner(environment, settings), settings.timeout_seconds, limit)


def _make_python(environment: ToolEnvironment, settings: PythonToolSettings, calls: int | None) -> PythonRunner:
    from turnstone.adapters.tools.code.call_limit import CallLimit
    from turnstone.adapters.tools.code.python_calls import PythonCalls

    limit = None if calls is None else CallLimit(calls)
    return PythonCalls(_code_runner(environment, settings), settings.timeout_seconds, limit)


def _code_runner(environment: ToolEnvironment, settings: CodeInterpreterSettings) -> CodeRunner:
    if settings.runs == "here":
        from turnstone.adapters.tools.code.code_subprocess import JailedCode

        return JailedCode(settings.memory_mb, environment.hidden)
    from turnstone.adapters.tools.code.agentcore import AgentCoreCode  # botocore's parsers: only where it is called

    return AgentCoreCode(partial(_agentcore_client, environment.deps, settings.region), settings.identifier)


def _agentcore_client(deps: ProviderDeps, region: str | None, timeout_s: float) -> Any:
    clients = deps.aws()
    from turnstone.adapters.tools.code.agentcore_client import build_agentcore_client

    return build_agentcore_client(clients, region, timeout_s)
