"""The adapters of the services, one for every port."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.registry.catalogue import Catalogue
    from turnstone.ports.memory import Segments
    from turnstone.ports.memory_providers import BankProviders
    from turnstone.ports.models import Embeddings, Inference
    from turnstone.ports.objects import Objects
    from turnstone.ports.shields import ShieldKinds
    from turnstone.ports.storage import RangeStore
    from turnstone.ports.supervision import Jobs, Supervisor
    from turnstone.ports.system import Clock, IdGenerator
    from turnstone.ports.tools import ToolKinds
    from turnstone.ports.webhooks import WebhookSender


class AnyPorts(Protocol):
    """One adapter for every port, made beforehand or at its first use, and the operator's catalogue.

    Without a catalogue one provider serves every model, by its name. Only a bucket has objects of the operator.
    """

    @property
    def store(self) -> RangeStore: ...

    @property
    def inference(self) -> Inference: ...

    @property
    def embeddings(self) -> Embeddings: ...

    @property
    def tools(self) -> ToolKinds: ...

    @property
    def supervisor(self) -> Supervisor: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> IdGenerator: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def shields(self) -> ShieldKinds: ...

    @property
    def segments(self) -> Segments: ...

    @property
    def webhook_sender(self) -> WebhookSender: ...

    @property
    def bank_providers(self) -> BankProviders: ...

    @property
    def catalogue(self) -> Catalogue | None: ...

    @property
    def objects(self) -> Objects | None: ...


@dataclass(frozen=True)
class Ports:
    """One adapter for every port, made beforehand."""

    store: RangeStore
    inference: Inference
    tools: ToolKinds
    supervisor: Supervisor
    clock: Clock
    ids: IdGenerator
    jobs: Jobs
    shields: ShieldKinds
    embeddings: Embeddings
    bank_providers: BankProviders
    webhook_sender: WebhookSender
    catalogue: Catalogue | None = None
    objects: Objects | None = None

    @cached_property
    def segments(self) -> Segments:
        """The indexes of memory banks: their module takes long to load."""
        from turnstone.adapters.retrieval.segments import NumpySegments

        return NumpySegments()
