"""The services of direct calls of models, and of the answers stored for them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.services.models.inferring import Inferring
    from turnstone.services.models.stored_completions import StoredCompletions


class ModelServices:
    """The services of direct calls of models; the registries are built for calls, not for stored answers."""

    def __init__(self, foundation: Foundation, registries: Callable[[], Registries]) -> None:
        self._foundation = foundation
        self._registries = registries

    @cached_property
    def inferring(self) -> Inferring:
        from turnstone.services.models.inferring import Inferring, InferringDeps

        ports = self._foundation.ports
        deps = InferringDeps(
            inference=ports.inference,
            embeddings=ports.embeddings,
            clock=ports.clock,
            ids=ports.ids,
            day_limit=self._foundation.limits.of_day,
        )
        return Inferring(deps, self._registries().routing, self._foundation.executor)

    @cached_property
    def stored_completions(self) -> StoredCompletions:
        from turnstone.services.models.stored_completions import StoredCompletionDeps, StoredCompletions
        from turnstone.store.models.stored_completions import StoredCompletionStore

        ports = self._foundation.ports
        return StoredCompletions(
            StoredCompletionDeps(
                store=StoredCompletionStore(ports.store),
                rules=self._foundation.rules,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                kept_for_s=self._foundation.settings.stored_completion_ttl_s,
            )
        )
