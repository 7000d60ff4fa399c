"""The kinds of toolgroups, as the place has them that a server runs in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from turnstone.adapters.tools.kinds import EveryToolKind, ToolDependencies
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
    from turnstone.bootstrap.models import Means
    from turnstone.domain.registry.catalogue import BedrockProvider, Catalogue, OpenAIProvider
    from turnstone.domain.registry.registry import Toolgroup
    from turnstone.domain.registry.tool_settings import CodeInterpreterSettings, PhotogenSettings, ToolSettings
    from turnstone.ports.system import Clock
    from turnstone.ports.tools import Toolbox
    from turnstone.settings.config import LambdaSettings, Settings
    from turnstone.settings.local_settings import LocalSettings

log = logging.getLogger(__name__)
# beside what the code may take: the files in its folder, and its output and its two other processes in memory
CODE_CALL_OVERHEAD_MB = 96


class ToolPlace(NamedTuple):
    """What of a place the tools need.

    Attributes:
        catalogue: what the operator's file says, None if there is none.
        means: what making the providers of the file takes.
        keys: returns the key that a variable or a secret of this name holds.
        hidden: folders that no code of a model may see.
        processes: how many share this machine, each with a part of what is the machine's.
    """

    settings: Settings
    catalogue: Catalogue | None
    clock: Clock
    means: Means
    keys: Keys
    hidden: tuple[Path, ...] = ()
    processes: int = 1


def local_tool_kinds(settings: LocalSettings, catalogue: Catalogue | None, clock: Clock) -> EveryToolKind:
    """Return every kind on one machine. Raises InvalidSettings if the file names what can't be had."""
    from turnstone.bootstrap.models import local_means

    named = {}
    if catalogue is not None:
        told = catalogue.tools
        named = {"websearch": told.websearch.api_key_env, "wolfram_alpha": told.wolfram_alpha.api_key_env}
    for name, variable in named.items():
        if variable is not None and text_of_variable(variable) is None:
            raise InvalidFile(f"tools.{name}.api_key_env: {variable} is not set")
    hidden = (settings.data_dir,)
    means = local_means(settings)
    place = ToolPlace(settings, catalogue, clock, means, text_of_variable, hidden, settings.processes)
    return build_tool_kinds(place)


def lambda_tool_kinds(
    settings: LambdaSettings, catalogue: Catalogue | None, clock: Clock, means: Means, secret: Keys
) -> EveryToolKind:
    """Return every kind on AWS; secrets are read when a tool needs one. Raises InvalidSettings."""
    if catalogue is not None and catalogue.tools.code_interpreter.runs == "here":
        raise InvalidFile("tools.code_interpreter.runs: must be agentcore or off on AWS")
    return build_tool_kinds(ToolPlace(settings, catalogue, clock, means, secret))


def build_tool_kinds(place: ToolPlace) -> EveryToolKind:
    """Return every kind. Raises InvalidSettings if the file asks for what can't be had here."""
    image_model: Callable[[], ImageModel] | None = None
    code_interpreter: Callable[[], Toolbox] | None = None
    allowed = cache(partial(_allowed, place.settings))
    if place.catalogue is not None:
        told = place.catalogue.tools
        if told.photogen is not None:
            image_model = _image_model(told.photogen, place.catalogue, place.means)
        if told.code_interpreter.runs != "off":
            code_interpreter = _code_interpreter(place, told.code_interpreter)
        _refuse_wrong_addresses(place.catalogue, allowed)
    mcp = _McpServers(allowed, place.catalogue.configured_toolgroups() if place.catalogue is not None else {})
    means = ToolDependencies(
        settings=partial(_settings_of, place.catalogue),
        clock=place.clock,
        keys=place.keys,
        fetcher=cache(partial(_fetcher, allowed)),
        image_model=image_model,
        mcp=mcp.toolbox,
        code_interpreter=code_interpreter,
        close=mcp.close,
    )
    return EveryToolKind(means)


def _refuse_wrong_addresses(catalogue: Catalogue, allowed: Callable[[], Allowed]) -> None:
    """Raise InvalidSettings for an address of the operator that can't be asked."""
    told = catalogue.tools
    addresses = {"tools.websearch.url": told.websearch.url, "tools.wolfram_alpha.url": told.wolfram_alpha.url}
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
    from turnstone.domain.registry.tool_settings import ToolSettings  # only where a tool is made that has some

    return ToolSettings.model_construct()


def _allowed(settings: Settings) -> Allowed:
    from turnstone.adapters.fetching.allowing import Allowed

    return Allowed.of(settings.fetch_allow)


def _fetcher(allowed: Callable[[], Allowed], url: str | None) -> GuardedFetcher:
    """Return what asks addresses outside. That of the operator is for its own tool: agents can't have it asked."""
    from turnstone.adapters.fetching.fetcher import GuardedFetcher  # urllib3: only where something is fetched

    return GuardedFetcher(allowed() if url is None else allowed().with_url(url))


def _image_model(settings: PhotogenSettings, catalogue: Catalogue, means: Means) -> Callable[[], ImageModel]:
    """Return what makes the model that makes images. Raises InvalidSettings if there can be none."""
    entry = catalogue.providers.get(settings.provider)
    if entry is None or entry.type == "offline":
        raise InvalidFile(f"tools.photogen.provider: {settings.provider!r} makes no images")
    match entry.type:
        case "openai":
            return partial(_openai_images, settings, entry, means)
        case "bedrock":
            from turnstone.adapters.tools.images.bedrock_image_bodies import body_of

            try:
                body_of(settings.model, settings.size)
            except ValueError as wrong:
                raise InvalidFile(f"tools.photogen.{wrong}") from wrong
            return partial(_bedrock_images, settings, entry, means)
        case _:
            assert_never(entry)


def _openai_images(settings: PhotogenSettings, entry: OpenAIProvider, means: Means) -> ImageModel:
    from turnstone.adapters.tools.images.openai_images import (
        OpenAICompatibleImages,  # urllib3: only where images are made
    )

    url, access = means.openai_access(settings.provider, entry)
    timeout_s = entry.timeout_seconds or means.timeout_s
    return OpenAICompatibleImages(url, access, settings.model, settings.size, timeout_s)


def _bedrock_images(settings: PhotogenSettings, entry: BedrockProvider, means: Means) -> ImageModel:
    clients = means.aws()
    from turnstone.adapters.models.bedrock.bedrock_client import (
        build_bedrock_client,  # botocore's parsers: only where it is asked
    )
    from turnstone.adapters.tools.images.bedrock_images import BedrockImages

    timeout_s = entry.timeout_seconds or means.timeout_s
    client = cache(partial(build_bedrock_client, clients, entry.region, timeout_s))
    return BedrockImages(client, settings.model, settings.size)


class _McpServers:
    """The connections to MCP servers, of a process that may never ask one."""

    def __init__(self, allowed: Callable[[], Allowed], configured: Mapping[str, Toolgroup]) -> None:
        """Take the toolgroups of the operator's file, whose servers need no further permission."""
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
        is_configured = self._configured.get(group.identifier) == group  # a tenant's would have to be the same in all
        return McpToolbox(group, self._connections, is_configured=is_configured)

    def close(self) -> None:
        with self._lock:
            if self._connections is not None:
                self._connections.close()


def _code_interpreter(place: ToolPlace, settings: CodeInterpreterSettings) -> Callable[[], Toolbox]:
    """Return what makes the toolbox. Raises InvalidSettings if this machine's memory is too small for its processes."""
    calls = _code_calls(settings, place.processes) if settings.runs == "here" else None
    return partial(_make_code_interpreter, place, settings, calls)


def _code_calls(settings: CodeInterpreterSettings, processes: int) -> int:
    """Return the limit of code calls at a time for one of the processes. Raises InvalidSettings."""
    from turnstone.adapters.machine.machine_memory import usable_memory_bytes  # only where code is run

    calls = settings.calls_at_a_time
    name = "tools.code_interpreter"
    if calls is None:
        usable_bytes = usable_memory_bytes()
        half_mb = None if usable_bytes is None else usable_bytes // 2 // 2**20
        calls = 1 if half_mb is None else max(1, half_mb // (settings.memory_mb + CODE_CALL_OVERHEAD_MB))
        if calls < processes:
            said = f"half of the memory has room for {calls} calls at a time, and TURNSTONE_PROCESSES is {processes}"
            raise InvalidFile(f"{name}.memory_mb: {said}; lower either, or set calls_at_a_time")
    elif calls < processes:
        raise InvalidFile(f"{name}.calls_at_a_time: must be at least TURNSTONE_PROCESSES, which is {processes}")
    log.info("code calls at a time: %d in each process", calls // processes)
    return calls // processes


def _make_code_interpreter(place: ToolPlace, settings: CodeInterpreterSettings, calls: int | None) -> Toolbox:
    from turnstone.adapters.tools.code.call_limit import CallLimit
    from turnstone.adapters.tools.code.code_interpreter import CodeInterpreter

    limit = None if calls is None else CallLimit(calls)
    return CodeInterpreter(_code_runner(place, settings), settings.timeout_seconds, limit)


def _code_runner(place: ToolPlace, settings: CodeInterpreterSettings) -> CodeRunner:
    if settings.runs == "here":
        from turnstone.adapters.tools.code.code_subprocess import JailedCode

        return JailedCode(settings.memory_mb, place.hidden)
    from turnstone.adapters.tools.code.agentcore import AgentCoreCode  # botocore's parsers: only where it is asked

    return AgentCoreCode(partial(_agentcore_client, place.means, settings.region), settings.identifier)


def _agentcore_client(means: Means, region: str | None, timeout_s: float) -> Any:
    clients = means.aws()
    from turnstone.adapters.tools.code.agentcore_client import build_agentcore_client

    return build_agentcore_client(clients, region, timeout_s)
