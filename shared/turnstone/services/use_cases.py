"""All use cases of the server, as the edge gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a function loads the services that its route uses, and no others
    from turnstone.services.agents.agents import Agents
    from turnstone.services.agents.archives import Archives
    from turnstone.services.agents.blocks import Blocks
    from turnstone.services.cleanup.deleting import Deleting
    from turnstone.services.files.attachments import Attachments
    from turnstone.services.files.files import Files
    from turnstone.services.files.uploads import Uploads
    from turnstone.services.letta.agents import LettaAgents
    from turnstone.services.letta.contexts import LettaContexts
    from turnstone.services.letta.editing import LettaEditing
    from turnstone.services.letta.importing import LettaImporting
    from turnstone.services.letta.messages import LettaMessages
    from turnstone.services.letta.python_tools import PythonTools
    from turnstone.services.letta.runs import LettaRuns
    from turnstone.services.letta.source_files import SourceFiles
    from turnstone.services.letta.sources import Sources
    from turnstone.services.letta.tools import CustomTools
    from turnstone.services.memory.banks import Banks
    from turnstone.services.memory.documents.documents import Documents
    from turnstone.services.memory.documents.file_batches import FileBatches
    from turnstone.services.memory.documents.vector_stores import VectorStores
    from turnstone.services.memory.inserting import Inserting
    from turnstone.services.memory.recalling import Recalling
    from turnstone.services.memory.searching import Searching
    from turnstone.services.memory.turns.rag_queries import RagQueries
    from turnstone.services.models.inferring import Inferring
    from turnstone.services.models.registry import Models, Providers
    from turnstone.services.models.stored_completions import StoredCompletions
    from turnstone.services.responses.conversations import Conversations
    from turnstone.services.responses.responses import Responses
    from turnstone.services.sessions.session_context import SessionContexts
    from turnstone.services.sessions.sessions import Sessions
    from turnstone.services.shields.shields import Shields
    from turnstone.services.streams.session_queues import SessionQueues
    from turnstone.services.threads.executor import TurnExecutor
    from turnstone.services.tools.toolgroups import Toolgroups
    from turnstone.services.turns.cancelling import Cancelling
    from turnstone.services.turns.reading import TurnReader
    from turnstone.services.turns.turn_events import TurnEvents
    from turnstone.services.turns.turns import Turns
    from turnstone.services.usage.usage import Usage
    from turnstone.services.webhooks.webhooks import Webhooks


class UseCases(Protocol):
    """Every use case of a server.

    Attributes:
        max_infer_iters: upper bound of the field of this name, of agents and of turns.
        executor: of the slots for turns and direct model requests, and the queue for them.
        session_queues: of requests that wait for the end of their session's running turn.
    """

    @property
    def max_infer_iters(self) -> int: ...

    @property
    def executor(self) -> TurnExecutor: ...

    @property
    def agents(self) -> Agents: ...

    @property
    def blocks(self) -> Blocks: ...

    @property
    def archives(self) -> Archives: ...

    @property
    def letta_agents(self) -> LettaAgents: ...

    @property
    def letta_tools(self) -> CustomTools: ...

    @property
    def python_tools(self) -> PythonTools: ...

    @property
    def letta_contexts(self) -> LettaContexts: ...

    @property
    def letta_importing(self) -> LettaImporting: ...

    @property
    def letta_messages(self) -> LettaMessages: ...

    @property
    def letta_editing(self) -> LettaEditing: ...

    @property
    def letta_runs(self) -> LettaRuns: ...

    @property
    def letta_sources(self) -> Sources: ...

    @property
    def source_files(self) -> SourceFiles: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def deleting(self) -> Deleting: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def session_queues(self) -> SessionQueues: ...

    @property
    def events(self) -> TurnEvents: ...

    @property
    def cancelling(self) -> Cancelling: ...

    @property
    def reader(self) -> TurnReader: ...

    @property
    def models(self) -> Models: ...

    @property
    def providers(self) -> Providers: ...

    @property
    def toolgroups(self) -> Toolgroups: ...

    @property
    def shields(self) -> Shields: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def contexts(self) -> SessionContexts: ...

    @property
    def attachments(self) -> Attachments: ...

    @property
    def inferring(self) -> Inferring: ...

    @property
    def stored_completions(self) -> StoredCompletions: ...

    @property
    def responses(self) -> Responses: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def banks(self) -> Banks: ...

    @property
    def inserting(self) -> Inserting: ...

    @property
    def documents(self) -> Documents: ...

    @property
    def rag_queries(self) -> RagQueries: ...

    @property
    def recalling(self) -> Recalling: ...

    @property
    def searching(self) -> Searching: ...

    @property
    def files(self) -> Files: ...

    @property
    def uploads(self) -> Uploads: ...

    @property
    def vector_stores(self) -> VectorStores: ...

    @property
    def file_batches(self) -> FileBatches: ...

    @property
    def webhooks(self) -> Webhooks: ...
