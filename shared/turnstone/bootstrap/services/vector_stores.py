"""The services of vector stores: banks whose documents are files."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.ingesting import IngestingServices
    from turnstone.bootstrap.services.memory import MemoryServices
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.services.files.files import Files
    from turnstone.services.memory.documents.file_batches import FileBatches
    from turnstone.services.memory.documents.vector_stores import VectorStores


class VectorStoreServices:
    """The services of vector stores, with those of memory banks; searches load at the first one."""

    def __init__(
        self,
        foundation: Foundation,
        registries: Callable[[], Registries],
        memory: MemoryServices,
        ingesting: Callable[[], IngestingServices],
        files: Callable[[], Files],
    ) -> None:
        self._foundation = foundation
        self._registries = registries
        self._memory = memory
        self._ingesting = ingesting
        self._files = files

    @cached_property
    def stores(self) -> VectorStores:
        from turnstone.services.memory.documents.vector_stores import VectorStoreDeps, VectorStores

        return VectorStores(
            VectorStoreDeps(
                banks=self._memory.banks,
                documents=self._memory.documents,
                records=self._memory.records,
                ingesting=lambda: self._ingesting().ingesting,
                searching=lambda: self._memory.searching,
                files=lambda *query: self._files().visible(*query),
                default_model=self._default_model,
            )
        )

    @cached_property
    def batches(self) -> FileBatches:
        from turnstone.services.memory.documents.file_batches import FileBatchDeps, FileBatches
        from turnstone.store.memory.file_batches import FileBatchStore

        return FileBatches(
            FileBatchDeps(
                banks=self._memory.banks,
                documents=self._memory.documents,
                records=self._memory.records,
                store=FileBatchStore(self._foundation.ports.store),
                add_files=lambda *new: self.stores.add_files(*new),
            )
        )

    def _default_model(self, tenant: str) -> str | None:
        route = self._registries().routing.embedding_route(tenant)
        return None if route is None else route.model_id
