"""The services of files and uploads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.services.files.files import Files
    from turnstone.services.files.uploads import Uploads


class FileServices:
    """The services of files; an upload becomes one of them."""

    def __init__(self, foundation: Foundation) -> None:
        self._foundation = foundation

    @cached_property
    def files(self) -> Files:
        from turnstone.services.files.files import FileDeps, Files
        from turnstone.store.files.files import FileStore

        ports = self._foundation.ports
        return Files(
            FileDeps(
                store=FileStore(ports.store),
                rules=self._foundation.rules,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def uploads(self) -> Uploads:
        from turnstone.services.files.uploads import UploadDeps, Uploads
        from turnstone.store.files.uploads import UploadStore

        ports = self._foundation.ports
        return Uploads(
            UploadDeps(
                store=UploadStore(ports.store),
                rules=self._foundation.rules,
                dated=self.files.dated,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                ids=ports.ids,
            )
        )
