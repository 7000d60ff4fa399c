"""The services of insertions by jobs: files become documents of memory banks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.memory import MemoryServices
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.files.stored_files import StoredFile
    from turnstone.domain.turns.attempts import Attempt
    from turnstone.domain.values.cancellation import StopSignal
    from turnstone.ports.extracting import Extractor
    from turnstone.services.files.files import Files
    from turnstone.services.memory.documents.ingest_runs import IngestRuns
    from turnstone.services.memory.documents.ingesting import Ingesting
    from turnstone.services.memory.documents.uploaded_objects import UploadedObjects
    from turnstone.store.memory.ingestions import IngestionStore

PURPOSE = "assistants"  # of files that were put into the bucket


class IngestingServices:
    """The services of insertions by jobs; what reads texts is loaded by the first job."""

    def __init__(self, foundation: Foundation, memory: MemoryServices, files: Callable[[], Files]) -> None:
        self._foundation = foundation
        self._memory = memory
        self._files = files

    @cached_property
    def ingesting(self) -> Ingesting:
        from turnstone.services.memory.documents.ingesting import Ingesting, IngestingDeps
        from turnstone.store.cleanup.jobs import JobStore

        ports = self._foundation.ports
        return Ingesting(
            IngestingDeps(
                banks=self._memory.banks,
                documents=self._memory.documents,
                records=self._memory.records,
                runs=self._runs,
                store=self._store,
                job_store=JobStore(ports.store),
                jobs=lambda: ports.jobs,
                files=lambda *query: self._files().visible(*query),
                delete_file=lambda *named: self._files().delete(*named),
                is_claiming=self._foundation.is_on_lambda,
            )
        )

    @cached_property
    def stop(self) -> StopSignal:
        """Ends runs of this process early; other runs continue them."""
        from turnstone.domain.values.cancellation import StopSignal

        return StopSignal()

    @cached_property
    def uploaded_objects(self) -> UploadedObjects:
        """The objects of the operator's bucket as documents. Raises LookupError where there is no bucket."""
        from turnstone.services.memory.documents.uploaded_objects import UploadedObjectDeps, UploadedObjects

        objects = self._foundation.ports.objects
        if objects is None:
            raise LookupError("this server has no bucket")
        return UploadedObjects(
            UploadedObjectDeps(
                objects=objects,
                banks=self._memory.banks,
                records=self._memory.records,
                ingesting=self.ingesting,
                create_file=self._created,
                delete_file=lambda *named: self._files().delete(*named),
            )
        )

    def _created(
        self, caller: Caller, filename: str, media_type: str, content: Iterator[bytes], attempt: Attempt
    ) -> StoredFile:
        return self._files().create(caller, filename, media_type, PURPOSE, content, attempt=attempt)

    @cached_property
    def _runs(self) -> IngestRuns:
        from turnstone.services.memory.documents.ingest_runs import IngestRunDeps, IngestRuns

        memory = self._memory
        return IngestRuns(
            IngestRunDeps(
                banks=memory.banks,
                documents=memory.documents,
                records=memory.records,
                store=self._store,
                embedding=memory.embedding,
                extractor=lambda: self._extractor,
                open_file=lambda *named: self._files().open(*named),
                files=lambda *query: self._files().visible(*query),
                check_room=lambda ref, added: memory.folding.check_room(ref, added, "documents"),
                stop=self.stop,
            )
        )

    @cached_property
    def _store(self) -> IngestionStore:
        from turnstone.store.memory.ingestions import IngestionStore

        return IngestionStore(self._foundation.ports.store)

    @cached_property
    def _extractor(self) -> Extractor:
        from turnstone.adapters.extracting.extractor import DocumentExtractor
        from turnstone.adapters.extracting.reading_process import ReadingProcesses

        return DocumentExtractor(ReadingProcesses())
