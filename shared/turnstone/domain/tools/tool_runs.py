"""Tools offered to a model, and runs of the server's: caller, arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from turnstone.domain.memory.lent_banks import NO_BANKS, LentBanks
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:
    from turnstone.domain.access.access import Ownership
    from turnstone.domain.errors import ToolgroupUnavailable
    from turnstone.domain.memory.memory_query import MemoryQuery
    from turnstone.domain.refs import SessionRef
    from turnstone.domain.tools.agent_tools import RemoteExecution
    from turnstone.domain.tools.tools import ToolCall, ToolDef
    from turnstone.domain.values.cancellation import StopSignal
    from turnstone.domain.values.content import Content


MESSAGING = "letta::core"
SEND_NAME = "send_message"  # a tool of that group


class ToolAsker(NamedTuple):
    """The caller of tools.

    Attributes:
        provider_data: keys and headers of the caller, for this request only.
    """

    tenant: str
    provider_data: ProviderData = NO_PROVIDER_DATA


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """Settings from an agent's own definition of a tool.

    Attributes:
        engine: the service to use, of several.
        api_key: the key that replaces the server's; the caller's own takes precedence.
        remote_execution: the remote address of the tool.
    """

    engine: str | None = None
    api_key: str | None = field(default=None, repr=False)
    remote_execution: RemoteExecution | None = field(default=None, repr=False)


class ToolInvocation(NamedTuple):
    """A call to run.

    Attributes:
        arguments: the model's, overridden by the toolgroup's fixed ones.
        idempotency_key: the same whenever this call is run again after a crash.
        ref: the session of the turn that calls, None outside turns.
        timeout_s: the time limit, after which the caller ignores the result.
        stop: cancels the call.
        chain: the agents whose calls led to this turn, as in `TurnSettings`.
        fixed_arguments: those of `arguments` that the model could not choose.
        banks: the memory banks that the caller may read.
        position: of the call among the calls of its turn.
        named_by: the owner and access list of the turn's request, as in `TurnSettings`.
    """

    call: ToolCall
    arguments: Mapping[str, Any]
    idempotency_key: str
    ref: SessionRef | None
    asker: ToolAsker
    timeout_s: float
    options: ToolOptions = ToolOptions()
    stop: StopSignal | None = None
    chain: tuple[str, ...] = ()
    fixed_arguments: Mapping[str, Any] = MappingProxyType({})
    banks: LentBanks = NO_BANKS
    position: int = 0
    named_by: Ownership | None = None

    @property
    def nested_chain(self) -> tuple[str, ...]:
        """The chain of a turn that this call starts; a turn of an agent in it would be a circle."""
        return self.chain if self.ref is None else (*self.chain, self.ref.agent_id)


class ServerCall(NamedTuple):
    """A model's call of a server tool.

    Attributes:
        arguments: the model's, overridden by the toolgroup's fixed ones.
        idempotency_key: the same whenever this call is run again after a crash.
        position: of the call among the calls of its turn.
    """

    call: ToolCall
    tool: OfferedTool
    arguments: Mapping[str, Any]
    idempotency_key: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class ProducedFile:
    """A file produced by a tool; its name has no folders."""

    name: str
    mime_type: str
    body: bytes = field(repr=False)


class ToolResult(NamedTuple):
    """A tool's result for the model, and the files produced with it.

    Attributes:
        query: the query to memory of a search, whose tokens the turn has used where a model wrote it.
    """

    content: Content
    metadata: Mapping[str, Any] | None = None
    files: tuple[ProducedFile, ...] = ()
    query: MemoryQuery | None = None


class OfferedTool(NamedTuple):
    """A server tool as offered to the model.

    Attributes:
        definition: for the model.
        fixed_arguments: set by its toolgroup.
        toolgroup: the group that runs it.
        runs_as: its name in that group, if the model has another.
        input_shields, output_shields: the shields for each call and each answer.
        needs_approval: whether a call runs only after the client has approved it.
    """

    definition: ToolDef
    fixed_arguments: Mapping[str, Any]
    toolgroup: str
    runs_as: str | None = None
    options: ToolOptions = ToolOptions()
    input_shields: tuple[str, ...] = ()
    output_shields: tuple[str, ...] = ()
    needs_approval: bool = False

    @property
    def is_pure(self) -> bool:
        """Whether a call waits for nothing and changes nothing, so that it may be repeated with its inference."""
        return self.toolgroup == MESSAGING and self.runs_as == SEND_NAME


class ToolOffer(NamedTuple):
    """The tools that a model may call in this turn. A client's tool hides a server tool of the same name.

    Attributes:
        unavailable: why a server of the turn's own could not list its tools, by which the turn fails; None otherwise.
    """

    client: Mapping[str, ToolDef]
    server: Mapping[str, OfferedTool]
    unavailable: ToolgroupUnavailable | None = None

    @property
    def definitions(self) -> tuple[ToolDef, ...]:
        return (*self.client.values(), *(tool.definition for tool in self.server.values()))

    def name_offered(self, name: str) -> str | None:
        """Return the model's name of the tool that a client names so, None without one.

        A tool that runs under another name than the model's is listed to clients under that one.
        """
        if name in self.client or name in self.server:
            return name
        return next((offered for offered, tool in self.server.items() if tool.runs_as == name), None)
