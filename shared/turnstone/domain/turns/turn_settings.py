"""Settings of a turn: what its request brought, and what a run needs to continue it in any process."""

from typing import Any, Literal

from pydantic import Field

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import AgentConfig, TurnOverrides
from turnstone.domain.messages.messages import Message, UserMessage
from turnstone.domain.tools.inline_toolgroups import InlineToolgroup
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.loop_policies import AGENTS, LoopPolicy
from turnstone.domain.values.content import Content, items_of
from turnstone.domain.values.frozen import Frozen, JsonObject

Origin = Literal["agents", "responses", "letta"]


class TurnDocument(Frozen):
    """A document of a turn's request; the model is shown its content in this turn only.

    Attributes:
        address: of a text that is fetched before the turn is opened; its content is empty until then.
    """

    content: Content
    mime_type: str = "text/plain"
    address: str | None = Field(default=None, exclude=True)


class TurnSettings(Frozen):
    """Settings of a turn, stored in the private part of its record where they differ from the defaults.

    Attributes:
        overrides: this turn's overrides of its agent.
        config: a snapshot of the configuration it runs with, in place of agent and overrides; None where those
            determine the configuration, because the agent cannot change.
        policy: the rules of its loop.
        extras: fields for providers that accept them, as in `InferenceRequest.extras`.
        tool_extras: likewise fields of tools, by their names.
        documents: shown to the model beside the turn's last user message.
        attachments: texts that its run adds to the session's bank, before it reads memory.
        named_by: the owner and access list of its request, if that names memory banks.
        carried_calls: approved calls of an earlier turn, which run before the first inference.
        own_toolgroups: toolgroups of its request, with their secrets; those of an ended turn are not stored.
        origin: the API that started the turn.
        runs_in_background: whether it is a response that outlives its request, whose end webhooks are sent.
        chain: the ids of the agents whose calls led to this turn, the first caller first; empty for a request's turn.
        keeps_details: whether the reasoning and the cuts of its inferences are stored, as its dialect requires.
    """

    overrides: TurnOverrides = TurnOverrides.model_construct()
    config: AgentConfig | None = None
    policy: LoopPolicy = AGENTS
    extras: JsonObject = {}
    tool_extras: JsonObject = {}
    documents: tuple[TurnDocument, ...] = ()
    attachments: tuple[TurnDocument, ...] = ()
    named_by: Ownership | None = None
    carried_calls: tuple[ToolCall, ...] = ()
    own_toolgroups: tuple[InlineToolgroup, ...] = Field(default=(), repr=False)
    origin: Origin = "agents"
    runs_in_background: bool = False
    keeps_details: bool = False
    chain: tuple[str, ...] = ()

    def config_with(self, agent: AgentConfig) -> AgentConfig:
        """Return the configuration that the turn runs with, of an agent with that configuration."""
        config = self.overrides.applied_to(agent) if self.config is None else self.config
        most = self.policy.max_steps
        return config if most is None else config.model_copy(update={"max_infer_iters": most})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in TurnSettings.model_fields}


def with_documents(messages: tuple[Message, ...], documents: tuple[TurnDocument, ...]) -> tuple[Message, ...]:
    """Return the messages with the documents as context of the last user message, or of a new one."""
    if not documents:
        return messages
    shown = tuple(item for document in documents for item in items_of(document.content))
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage):
            before = items_of(message.context) if message.context is not None else ()
            with_context = message.model_copy(update={"context": (*before, *shown)})
            return (*messages[:index], with_context, *messages[index + 1 :])
    return (*messages, UserMessage(content="", context=shown))
