"""What is known of the models that agents name."""

from collections.abc import Callable

from turnstone.domain.routing import ModelRoute

RouteOf = Callable[[str, str], ModelRoute]
"""Returns what is known of a model, given the tenant and the name by which the agent asks for it."""


def route_of_any(tenant: str, model_id: str) -> ModelRoute:  # noqa: ARG001 - as every RouteOf
    """Return the route of a model of which nothing is known but its name."""
    return ModelRoute(model_id, ())
