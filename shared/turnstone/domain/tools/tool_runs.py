"""A call of a server's tool: who has it run, with what, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:
    from turnstone.domain.tools.agent_tools import RemoteExecution
    from turnstone.domain.tools.tools import ToolCall, ToolDef
    from turnstone.domain.values.cancellation import StopSignal
    from turnstone.domain.values.content import Content


class ToolAsker(NamedTuple):
    """On whose behalf tools are looked up and run.

    Attributes:
        provider_data: keys and headers of the caller, for this request only.
    """

    tenant: str
    provider_data: ProviderData = NO_PROVIDER_DATA


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What an agent's own definition of a tool says of how it is run.

    Attributes:
        engine: which of several services is asked.
        api_key: the key to ask it with, in the place of the server's; the caller's own goes before it.
        remote_execution: where the tool is run instead.
    """

    engine: str | None = None
    api_key: str | None = field(default=None, repr=False)
    remote_execution: RemoteExecution | None = field(default=None, repr=False)


class ToolInvocation(NamedTuple):
    """A call to run.

    Attributes:
        arguments: the model's, with the toolgroup's fixed ones over them.
        idempotency_key: the same whenever this call is run again after a crash.
        session_id: empty where it is run outside of any.
        timeout_s: how long it may take; who waits for it gives up then, so that running on is in vain.
        stop: given when nobody wants the answer any more.
    """

    call: ToolCall
    arguments: Mapping[str, Any]
    idempotency_key: str
    session_id: str
    asker: ToolAsker
    timeout_s: float
    options: ToolOptions = ToolOptions()
    stop: StopSignal | None = None


class ToolRun(NamedTuple):
    """A call that one of the server's tools is to answer, as its turn knows it.

    Attributes:
        arguments: the model's, with the toolgroup's fixed ones over them.
    """

    call: ToolCall
    tool: OfferedTool
    arguments: Mapping[str, Any]
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class ProducedFile:
    """A file that a tool made; its name has no folders."""

    name: str
    mime_type: str
    body: bytes = field(repr=False)


class ToolResult(NamedTuple):
    """What a tool answers to the model, and the files it made beside that."""

    content: Content
    metadata: Mapping[str, Any] | None = None
    files: tuple[ProducedFile, ...] = ()


class OfferedTool(NamedTuple):
    """A server tool as offered to the model.

    Attributes:
        definition: as the model is told of it.
        fixed_arguments: those its toolgroup fixes.
        toolgroup: the group that runs it.
        runs_as: its name in that group, where the model knows it by another.
        input_shields, output_shields: what has to pass each call and each answer.
    """

    definition: ToolDef
    fixed_arguments: Mapping[str, Any]
    toolgroup: str
    runs_as: str | None = None
    options: ToolOptions = ToolOptions()
    input_shields: tuple[str, ...] = ()
    output_shields: tuple[str, ...] = ()
