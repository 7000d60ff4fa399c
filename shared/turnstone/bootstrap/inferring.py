"""Building of the use case for direct calls of models."""

from turnstone.bootstrap.adapters import AnyPorts
from turnstone.bootstrap.spending import build_limits
from turnstone.services.models.inferring import Inferring, InferringDeps
from turnstone.services.models.routing import Routing
from turnstone.services.threads.executor import TurnExecutor
from turnstone.settings.config import Settings


def build_inferring(ports: AnyPorts, settings: Settings, routing: Routing, executor: TurnExecutor) -> Inferring:
    deps = InferringDeps(
        inference=ports.inference,
        embeddings=ports.embeddings,
        clock=ports.clock,
        ids=ports.ids,
        day_limit=build_limits(ports, settings).of_day,
    )
    return Inferring(deps, routing, executor)
