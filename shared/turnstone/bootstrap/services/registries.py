"""The registries of models, toolgroups and shields, each loaded at its first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from turnstone.domain.errors import InvalidRequest
from turnstone.settings.config import OFFLINE, InvalidFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.turn_memory import TurnMemoryServices
    from turnstone.domain.models.routing import ConfiguredModels
    from turnstone.ports.tools import ToolKinds
    from turnstone.services.agents.core_memory import CoreMemoryToolbox
    from turnstone.services.letta.messaging import MessagingToolbox
    from turnstone.services.letta.multi_agent import MultiAgentToolbox
    from turnstone.services.letta.python_tools import PythonTools
    from turnstone.services.models.registry import Models, Providers
    from turnstone.services.models.routing import Routing
    from turnstone.services.shields.lookup import ShieldLookup
    from turnstone.services.shields.shielding import Shieldings
    from turnstone.services.shields.shields import Shields
    from turnstone.services.tools.lookup import ToolgroupLookup
    from turnstone.services.tools.own_toolboxes import OwnToolgroup
    from turnstone.services.tools.toolboxes import Toolboxes
    from turnstone.services.tools.toolgroups import Toolgroups
    from turnstone.store.files.attachments import AttachmentStore
    from turnstone.store.registry.snapshot import RegistrySnapshot

    OwnToolgroups = Sequence[OwnToolgroup]


class Registries:
    """The registries over some ports."""

    def __init__(
        self,
        foundation: Foundation,
        own_toolgroups: Callable[[], OwnToolgroups],
        memory: Callable[[], TurnMemoryServices],
        core_memory: Callable[[], CoreMemoryToolbox],
        multi_agent: Callable[[], MultiAgentToolbox],
    ) -> None:
        """Load nothing yet; the executor is loaded with the services that run tools and shields outside of turns."""
        self._foundation = foundation
        self._find_own_toolgroups = own_toolgroups
        self._memory = memory
        self._core_memory = core_memory
        self._multi_agent = multi_agent
        self._ports = foundation.ports
        self._settings = foundation.settings

    @cached_property
    def models(self) -> Models:
        from turnstone.domain.registry.registry import Model
        from turnstone.services.models.registry import Models
        from turnstone.store.registry.registry import RegistryStore

        ports = self._ports
        store = RegistryStore(ports.store, "model", Model, self.directory.forget)
        return Models(store, self._configured_models, ports.inference, ports.clock)

    @cached_property
    def providers(self) -> Providers:
        from turnstone.adapters.embedding.files import local_choice, missing_model
        from turnstone.domain.registry.providers import providers
        from turnstone.services.models.registry import Providers

        catalogue = self._ports.catalogue
        of_memory = {} if catalogue is None else {name: entry.type for name, entry in catalogue.memory.items()}
        missing = missing_model(local_choice(catalogue))
        problem = "" if missing is None else str(missing)
        return Providers(providers(self._configured_models.providers, of_memory, problem))

    @cached_property
    def toolgroups(self) -> Toolgroups:
        import turnstone.adapters.fetching.allowing
        import turnstone.adapters.tools.mcp.mcp
        import turnstone.adapters.tools.mcp.mcp_guarded  # noqa: F401 - loaded before the first registration
        from turnstone.domain.registry.registry import Toolgroup
        from turnstone.services.tools.toolgroups import Toolgroups
        from turnstone.store.registry.registry import RegistryStore

        store = RegistryStore(self._ports.store, "toolgroup", Toolgroup, self.directory.forget)
        return Toolgroups(store, self.toolboxes, self._ports.clock, self._foundation.executor)

    @cached_property
    def toolboxes(self) -> Toolboxes:
        from turnstone.services.tools.tool_answers import ToolAnswers
        from turnstone.services.tools.toolboxes import Toolboxes

        settings = self._settings
        answers = ToolAnswers(self.attachment_store, settings.max_tool_output, settings.public_url or "")
        return Toolboxes(self.toolgroup_lookup, self.tool_kinds, answers, settings.tool_timeout_seconds)

    @cached_property
    def tool_kinds(self) -> ToolKinds:
        """The kinds of toolgroups of the adapters, joined with those of the server's services."""
        from turnstone.services.tools.own_toolboxes import OwnToolboxes

        return OwnToolboxes(self._ports.tools, self._own_toolgroups)

    @cached_property
    def toolgroup_lookup(self) -> ToolgroupLookup:
        from turnstone.services.tools.lookup import ToolgroupLookup

        catalogue = self._ports.catalogue
        configured = catalogue.configured_toolgroups() if catalogue is not None else {}
        of_services = {toolgroup.identifier: toolgroup for toolgroup in self._own_toolgroups}
        named = lambda tenant, tool_ids: self.python_tools.named(tenant, tool_ids)  # noqa: E731 - built at its first use
        return ToolgroupLookup(self.directory, self.tool_kinds, configured, of_services, named)

    @cached_property
    def _own_toolgroups(self) -> OwnToolgroups:
        from turnstone.domain.letta.tools import GROUP as CUSTOM
        from turnstone.domain.memory.lent_banks import FILE_SEARCH, RAG
        from turnstone.domain.tools.base_tools import ARCHIVAL_MEMORY, CORE_MEMORY, MULTI_AGENT
        from turnstone.domain.tools.tool_runs import MESSAGING
        from turnstone.services.tools.own_toolboxes import OwnToolgroup

        # Set-up scripts of applications register this toolgroup.
        rag = OwnToolgroup(RAG, lambda: self._memory().rag_toolbox, is_listed=True, may_be_registered=True)
        file_search = OwnToolgroup(FILE_SEARCH, lambda: self._memory().file_search)
        of_agents = (
            OwnToolgroup(CORE_MEMORY, self._core_memory),
            OwnToolgroup(ARCHIVAL_MEMORY, lambda: self._memory().archival_toolbox),
            OwnToolgroup(MESSAGING, self._messaging),
            OwnToolgroup(CUSTOM, lambda: self.python_tools),
            OwnToolgroup(MULTI_AGENT, self._multi_agent),
        )
        return (rag, file_search, *of_agents, *self._find_own_toolgroups())

    def _messaging(self) -> MessagingToolbox:
        from turnstone.services.letta.messaging import MessagingToolbox

        return MessagingToolbox(self._ports.store)

    @cached_property
    def python_tools(self) -> PythonTools:
        from turnstone.services.letta.python_tools import PythonToolDeps, PythonTools
        from turnstone.store.agents.blocks import BlockStore
        from turnstone.store.letta.agents import LettaAgentStore
        from turnstone.store.letta.tools import ToolStore

        ports = self._ports
        return PythonTools(
            PythonToolDeps(
                tools=ToolStore(ports.store),
                agents=LettaAgentStore(ports.store),
                blocks=BlockStore(ports.store),
                runner=ports.tools.python,
                executor=self._foundation.executor,
                clock=ports.clock,
                timeout_s=self._settings.tool_timeout_seconds,
            )
        )

    @cached_property
    def attachment_store(self) -> AttachmentStore:
        from turnstone.store.files.attachments import AttachmentStore

        return AttachmentStore(self._ports.store)

    @cached_property
    def shields(self) -> Shields:
        import turnstone.adapters.shields.llama_guard
        import turnstone.adapters.shields.pattern  # noqa: F401 - loaded before the first registration
        from turnstone.domain.registry.registry import Shield
        from turnstone.services.shields.shields import Shields
        from turnstone.store.registry.registry import RegistryStore

        store = RegistryStore(self._ports.store, "shield", Shield, self.directory.forget)
        return Shields(store, self._shield_lookup, self.shieldings, self._ports.clock, self._foundation.executor)

    @cached_property
    def shieldings(self) -> Shieldings:
        from turnstone.services.shields.shielding import Shieldings

        return Shieldings(self._shield_lookup, self._ports.shields, self.routing.route)

    @cached_property
    def _shield_lookup(self) -> ShieldLookup:
        """The lookup of shields, of tenants and of the operator's file. Raises InvalidSettings for an invalid one."""
        from turnstone.services.shields.lookup import ShieldLookup

        configured = self._ports.catalogue.configured_shields() if self._ports.catalogue is not None else {}
        for name, shield in configured.items():
            try:
                self._ports.shields.build(shield)
            except InvalidRequest as wrong:
                raise InvalidFile(f"shields.{name}{_in_file(wrong)}") from wrong
        return ShieldLookup(self.directory, configured)

    @cached_property
    def routing(self) -> Routing:
        from turnstone.services.models.routing import Routing

        return Routing(self._configured_models, self.directory)

    @cached_property
    def directory(self) -> RegistrySnapshot:
        from turnstone.store.registry.snapshot import RegistrySnapshot

        return RegistrySnapshot(self._ports.store, self._ports.clock)

    @cached_property
    def _configured_models(self) -> ConfiguredModels:
        from turnstone.adapters.embedding.files import local_choice, with_local_models
        from turnstone.domain.models.routing import DEFAULT_PROVIDER, ConfiguredModels

        catalogue = self._ports.catalogue
        kind = "offline" if self._settings.model_url == OFFLINE else "openai"
        of_variables = ConfiguredModels({DEFAULT_PROVIDER: kind}, DEFAULT_PROVIDER)
        configured = of_variables if catalogue is None else catalogue.configured_models()
        return with_local_models(configured, local_choice(catalogue))


def _in_file(wrong: InvalidRequest) -> str:
    """Return the message with the key of the operator's file instead of the request's field."""
    field = ".".join(map(str, wrong.location))
    keys = ["provider" if part == "provider_id" else str(part) for part in wrong.location]
    return "".join(f".{key}" for key in keys) + f": {str(wrong).removeprefix(f'{field}: ')}"
