"""The services over some ports, the same on one machine and on AWS, composed of builders by subject.

A builder is loaded at the first use of its subject, and a service at its own, so that a Lambda loads only the services
of its own routes. A new subject is a module in `bootstrap/services` and a property here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from turnstone.bootstrap.services.foundation import Foundation

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.adapters import AnyPorts
    from turnstone.bootstrap.services.agents import AgentServices, LettaServices
    from turnstone.bootstrap.services.cleanup import CleanupServices
    from turnstone.bootstrap.services.files import FileServices
    from turnstone.bootstrap.services.ingesting import IngestingServices
    from turnstone.bootstrap.services.letta.sources import SourceServices
    from turnstone.bootstrap.services.memory import MemoryServices
    from turnstone.bootstrap.services.models import ModelServices
    from turnstone.bootstrap.services.registries import OwnToolgroups, Registries
    from turnstone.bootstrap.services.sessions import SessionServices
    from turnstone.bootstrap.services.turn_memory import TurnMemoryServices
    from turnstone.bootstrap.services.turns import ResponseServices, TurnServices
    from turnstone.bootstrap.services.usage import UsageServices
    from turnstone.bootstrap.services.vector_stores import VectorStoreServices
    from turnstone.bootstrap.services.webhooks.services import WebhookServices
    from turnstone.services.threads.slots import QueueLimits
    from turnstone.settings.config import Settings

T = TypeVar("T")


class ServiceOf(Generic[T]):
    """A service of the core, found in the builder of its subject."""

    def __init__(self, find: Callable[[Core], T]) -> None:
        self._find = find

    def __get__(self, core: Core, _: type[Core]) -> T:
        return self._find(core)


class Core:
    """The services over some ports, with the stores and threads that they share.

    `is_on_lambda` is set where the process is frozen between requests: all its work happens during a request, and it
    polls turns of other processes, because its supervisor sends it no notice of them. Without `queue_limits` no request
    waits for a slot: a Lambda has one request at a time, and every slot is free. `own_toolgroups` returns the
    toolgroups whose tools are services of this core.
    """

    foundation: Foundation
    agents = ServiceOf(lambda core: core.agent_services.agents)
    blocks = ServiceOf(lambda core: core.agent_services.blocks)
    core_memory = ServiceOf(lambda core: core.agent_services.core_memory)
    block_prompts = ServiceOf(lambda core: core.agent_services.prompts)
    sessions = ServiceOf(lambda core: core.session_services.sessions)
    attachments = ServiceOf(lambda core: core.session_services.attachments)
    turns = ServiceOf(lambda core: core.turn_services.turns)
    reader = ServiceOf(lambda core: core.turn_services.reader)
    events = ServiceOf(lambda core: core.turn_services.events)
    cancelling = ServiceOf(lambda core: core.turn_services.cancelling)
    recovery = ServiceOf(lambda core: core.turn_services.recovery)
    turn_store = ServiceOf(lambda core: core.turn_services.turn_store)
    session_queues = ServiceOf(lambda core: core.turn_services.session_queues)
    leases = ServiceOf(lambda core: core.turn_services.leases)
    broadcasts = ServiceOf(lambda core: core.turn_services.broadcasts)
    deleting = ServiceOf(lambda core: core.cleanup_services.deleting)
    cleaning = ServiceOf(lambda core: core.cleanup_services.cleaning)
    sweeper = ServiceOf(lambda core: core.cleanup_services.sweeper)
    models = ServiceOf(lambda core: core.registries.models)
    providers = ServiceOf(lambda core: core.registries.providers)
    toolgroups = ServiceOf(lambda core: core.registries.toolgroups)
    shields = ServiceOf(lambda core: core.registries.shields)
    inferring = ServiceOf(lambda core: core.model_services.inferring)
    stored_completions = ServiceOf(lambda core: core.model_services.stored_completions)
    letta_tools = ServiceOf(lambda core: core.letta_services.tools)
    python_tools = ServiceOf(lambda core: core.registries.python_tools)
    letta_agents = ServiceOf(lambda core: core.letta_services.agents)
    letta_contexts = ServiceOf(lambda core: core.letta_services.contexts)
    letta_messages = ServiceOf(lambda core: core.letta_services.messages)
    letta_editing = ServiceOf(lambda core: core.letta_services.editing)
    letta_importing = ServiceOf(lambda core: core.letta_services.importing)
    letta_multi_agent = ServiceOf(lambda core: core.letta_services.multi_agent)
    letta_runs = ServiceOf(lambda core: core.letta_services.runs)
    letta_sources = ServiceOf(lambda core: core.source_services.sources)
    source_files = ServiceOf(lambda core: core.source_services.source_files)
    responses = ServiceOf(lambda core: core.response_services.responses)
    conversations = ServiceOf(lambda core: core.response_services.conversations)
    banks = ServiceOf(lambda core: core.memory_services.banks)
    inserting = ServiceOf(lambda core: core.memory_services.inserting)
    documents = ServiceOf(lambda core: core.memory_services.documents)
    ingesting = ServiceOf(lambda core: core.ingesting_services.ingesting)
    vector_stores = ServiceOf(lambda core: core.vector_store_services.stores)
    file_batches = ServiceOf(lambda core: core.vector_store_services.batches)
    recalling = ServiceOf(lambda core: core.memory_services.recalling)
    searching = ServiceOf(lambda core: core.memory_services.searching)
    turn_memories = ServiceOf(lambda core: core.turn_memory_services.memories)
    turn_texts = ServiceOf(lambda core: core.turn_memory_services.texts)
    rag_queries = ServiceOf(lambda core: core.turn_memory_services.rag_queries)
    archives = ServiceOf(lambda core: core.turn_memory_services.archives)
    rag_toolbox = ServiceOf(lambda core: core.turn_memory_services.rag_toolbox)
    archival_toolbox = ServiceOf(lambda core: core.turn_memory_services.archival_toolbox)
    file_search = ServiceOf(lambda core: core.turn_memory_services.file_search)
    files = ServiceOf(lambda core: core.file_services.files)
    uploads = ServiceOf(lambda core: core.file_services.uploads)
    usage = ServiceOf(lambda core: core.usage_services.usage)
    contexts = ServiceOf(lambda core: core.usage_services.contexts)
    webhooks = ServiceOf(lambda core: core.webhook_services.webhooks)
    webhook_sending = ServiceOf(lambda core: core.webhook_services.sending)
    executor = ServiceOf(lambda core: core.foundation.executor)

    def __init__(
        self,
        ports: AnyPorts,
        settings: Settings,
        *,
        is_on_lambda: bool = False,
        queue_limits: QueueLimits | None = None,
        own_toolgroups: Callable[[Core], OwnToolgroups] = lambda _: (),
    ) -> None:
        self.foundation = Foundation(ports, settings, is_on_lambda=is_on_lambda, queue_limits=queue_limits)
        self._own_toolgroups = own_toolgroups

    def load(self) -> Core:
        """Load every service, for processes in which several threads would do so at once."""
        for name, member in vars(Core).items():
            if isinstance(member, ServiceOf):
                self.load_service(name, for_changes=True)
        _ = self.turn_services.unstored, self.turn_services.nested
        self.memory_services.load_kinds()
        self.cleanup_services.load_clearing()
        return self

    def load_service(self, name: str, *, for_changes: bool) -> None:
        """Load the service of that name, with the dependencies of its changes if `for_changes`."""
        _ = getattr(self, name)
        if for_changes and name == "agents":
            _ = self.agent_services.refuse

    @property
    def max_infer_iters(self) -> int:
        return self.foundation.settings.max_infer_iters

    @cached_property
    def agent_services(self) -> AgentServices:
        from turnstone.bootstrap.services.agents import AgentServices

        return AgentServices(self.foundation, lambda: self.registries, lambda: self.turn_memory_services)

    @cached_property
    def session_services(self) -> SessionServices:
        from turnstone.bootstrap.services.sessions import SessionServices

        return SessionServices(self.foundation, lambda: self.turn_memory_services)

    @cached_property
    def turn_services(self) -> TurnServices:
        from turnstone.bootstrap.services.turns import TurnServices

        return TurnServices(
            self.foundation,
            self.registries,
            lambda: self.turn_memory_services,
            lambda: self.agent_services.prompts,
        )

    @cached_property
    def cleanup_services(self) -> CleanupServices:
        from turnstone.bootstrap.services.cleanup import CleanupServices

        return CleanupServices(
            self.foundation,
            lambda: self.turn_services,
            lambda: self.ingesting_services,
            lambda: self.agent_services.blocks,
            lambda: self.webhook_services.sending,
        )

    @cached_property
    def webhook_services(self) -> WebhookServices:
        from turnstone.bootstrap.services.webhooks.services import WebhookServices

        return WebhookServices(self.foundation, lambda: self.registries.directory)

    @cached_property
    def model_services(self) -> ModelServices:
        from turnstone.bootstrap.services.models import ModelServices

        return ModelServices(self.foundation, lambda: self.registries)

    @cached_property
    def response_services(self) -> ResponseServices:
        from turnstone.bootstrap.services.turns import ResponseServices

        return ResponseServices(self.foundation, lambda: self.turn_services, lambda: self.cleanup_services)

    @cached_property
    def letta_services(self) -> LettaServices:
        from turnstone.bootstrap.services.agents import LettaServices

        return LettaServices(
            self.foundation,
            lambda: self.agent_services,
            lambda: self.turn_services,
            lambda: self.usage_services,
            lambda: self.source_services.sources,
        )

    @cached_property
    def source_services(self) -> SourceServices:
        from turnstone.bootstrap.services.letta.sources import SourceServices

        return SourceServices(
            self.foundation,
            self.memory_services,
            lambda: self.turn_memory_services,
            lambda: self.ingesting_services,
            lambda: self.file_services.files,
        )

    @cached_property
    def memory_services(self) -> MemoryServices:
        from turnstone.bootstrap.services.memory import MemoryServices

        return MemoryServices(self.foundation, lambda: self.registries, lambda: self.model_services)

    @cached_property
    def ingesting_services(self) -> IngestingServices:
        from turnstone.bootstrap.services.ingesting import IngestingServices

        return IngestingServices(self.foundation, self.memory_services, lambda: self.file_services.files)

    @cached_property
    def vector_store_services(self) -> VectorStoreServices:
        from turnstone.bootstrap.services.vector_stores import VectorStoreServices

        return VectorStoreServices(
            self.foundation,
            lambda: self.registries,
            self.memory_services,
            lambda: self.ingesting_services,
            lambda: self.file_services.files,
        )

    @cached_property
    def turn_memory_services(self) -> TurnMemoryServices:
        from turnstone.bootstrap.services.turn_memory import TurnMemoryServices

        return TurnMemoryServices(
            self.foundation, lambda: self.registries, lambda: self.model_services, self.memory_services
        )

    @cached_property
    def file_services(self) -> FileServices:
        from turnstone.bootstrap.services.files import FileServices

        return FileServices(self.foundation)

    @cached_property
    def usage_services(self) -> UsageServices:
        from turnstone.bootstrap.services.usage import UsageServices

        return UsageServices(self.foundation, self.registries, self.turn_services)

    @cached_property
    def registries(self) -> Registries:
        from turnstone.bootstrap.services.registries import Registries

        return Registries(
            self.foundation,
            lambda: self._own_toolgroups(self),
            lambda: self.turn_memory_services,
            lambda: self.agent_services.core_memory,
            lambda: self.letta_services.multi_agent,
        )
