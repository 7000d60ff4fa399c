"""The request of a response, as stored beside its turn and shown with it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import Field

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.messages.messages import Message
from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.hosted import HostedTool
from turnstone.domain.tools.inline_toolgroups import InlineToolgroup, ListedServer
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.loop_policies import RESPONSES, LoopPolicy
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen, JsonObject

DENIED = "The user denied this call, so it was not run."


class SentRequest(Frozen):
    """The request of a response.

    Attributes:
        echo: the fields of the response that repeat the request, in the dialect's terms.
        functions: the names of the tools that the client runs.
        hosted: the tools that the server runs, by the names that models call them by.
        include: details of items to show.
        input: the input items as sent, an empty one in place of each deleted one; ids are added when they are read.
        removed: the positions of deleted output items.
        rev: revision of the record this was read from, 0 before it is stored.
        takes_one_call: whether only the first call of each inference counts.
        is_in_background: whether the response runs without its request.
        approvals: the ids of the approved requests, by the calls that the response runs first.
        approved: the ids of its own requests that a later response has approved.
        lists: the tools of MCP servers that it lists, because no earlier response did.
        marks: those of all lists that it or earlier responses showed, see `mark_of`, by the servers' labels.
        segment: number of the open segment of the context log when the turn was opened.
    """

    echo: JsonObject = {}
    functions: tuple[str, ...] = ()
    hosted: dict[str, HostedTool] = {}
    include: tuple[str, ...] = ()
    input: tuple[JsonObject, ...] = ()
    takes_one_call: bool = False
    is_in_background: bool = False
    segment: int = 0
    removed: tuple[int, ...] = ()
    approvals: dict[str, str] = {}
    approved: tuple[str, ...] = ()
    rev: int = Field(default=0, exclude=True)
    lists: tuple[ListedServer, ...] = ()
    marks: dict[str, str] = {}

    @property
    def conversation(self) -> str | None:
        """The id of the conversation that it belongs to, None without one."""
        named = self.echo.get("conversation")
        return named["id"] if isinstance(named, dict) else None


class Given(NamedTuple):
    """An answer to a call of an earlier response.

    Attributes:
        position: of its item in the input.
    """

    position: int
    call_id: str


class Predecessor(NamedTuple):
    """The ids of the response, or of the conversation, that a response continues; None without one."""

    response: str | None = None
    conversation: str | None = None


class Approval(NamedTuple):
    """A client's decision about a call that waits for its approval.

    Attributes:
        position: of its item in the input.
        request_id: the id of the request that it answers.
        call: the call, where the input itself contains the request; `label` is that of its server.
    """

    position: int
    request_id: str
    approves: bool
    reason: str | None = None
    call: ToolCall | None = None
    label: str = ""


def denial(reason: str | None) -> str:
    """Return the answer that a model gets to a denied call."""
    return DENIED if not reason else f"{DENIED} Reason: {reason}"


class NewResponse(NamedTuple):
    """A caller's request of a response.

    Attributes:
        agent_id: the agent that answers, None for the model alone.
        config: of the request; with an agent, only the fields of `changed` apply.
        changed: the fields of `config` that replace the agent's.
        given: the answers to calls that the input itself does not contain.
        previous: id of the response to continue, None without one.
        conversation: id of the conversation to continue, None without one; not with `previous`.
        needs_whole_history: whether it is refused unless its history fits the model's context.
        max_output_tokens: see `LoopPolicy`, as `max_tool_calls`.
        approvals: its decisions about calls that wait for them.
        listed: the tools' names in lists of the input, by the servers' labels.
        own_toolgroups: see `TurnSettings`.
        tool_extras: see `TurnSettings`.
        tool_indexes: of the toolgroups of `config` among the request's tools.
        is_stored: whether it is stored with its turn; otherwise only its client gets it.
        is_streamed: whether its client gets its events as they happen.
    """

    messages: tuple[Message, ...]
    config: AgentConfig
    sent: SentRequest
    agent_id: str | None = None
    changed: frozenset[str] = frozenset()
    given: tuple[Given, ...] = ()
    previous: str | None = None
    conversation: str | None = None
    needs_whole_history: bool = False
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    extras: Mapping[str, Any] = {}
    tool_extras: Mapping[str, Any] = {}
    tool_indexes: tuple[int, ...] = ()
    approvals: tuple[Approval, ...] = ()
    listed: Mapping[str, frozenset[str]] = {}
    own_toolgroups: tuple[InlineToolgroup, ...] = ()
    is_stored: bool = True
    is_streamed: bool = False

    @property
    def policy(self) -> LoopPolicy:
        """The rules of its loop."""
        limits = {
            "calls_per_inference": 1 if self.sent.takes_one_call else None,
            "max_output_tokens": self.max_output_tokens,
            "max_tool_calls": self.max_tool_calls,
        }
        return RESPONSES.model_copy(update={name: limit for name, limit in limits.items() if limit is not None})

    def config_of(self, agent: AgentConfig) -> AgentConfig:
        """Return the configuration that it runs with, of an agent with that configuration."""
        if self.agent_id is None:
            return self.config
        changes = {name: getattr(self.config, name) for name in self.changed}
        if "client_tools" in changes:
            added = {tool.name for tool in self.config.client_tools}
            kept = (tool for tool in agent.client_tools if tool.name not in added)
            changes["client_tools"] = (*kept, *self.config.client_tools)
        if "toolgroups" in changes:
            changes["toolgroups"] = (*agent.toolgroups, *self.config.toolgroups)
        return agent.model_copy(update=changes)


class StoredResponse(NamedTuple):
    """A response as stored: its turn, and its request.

    Attributes:
        is_queued: whether no process has run it yet.
    """

    ref: TurnRef
    state: TurnState
    sent: SentRequest
    is_queued: bool = False


class ListedResponse(Frozen):
    """The list entry of a response. `order` is its turn, and its position."""

    agent_id: str
    session_id: str
    order: str
    model: str
    ends_at: datetime
    stamp: Ownership = Ownership.model_construct()

    def ref_in(self, tenant: str) -> TurnRef:
        """Return its turn."""
        return TurnRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id, turn_id=self.order)
