"""What is known of the models that agents name, for those who only tell of it."""

from collections.abc import Callable

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.models.routing import ModelRoute

RouteOf = Callable[[str, str], ModelRoute]
"""Returns who answers for a tenant's model. Raises InvalidRequest where nobody does."""


def known_of(route_of: RouteOf, tenant: str, model_id: str) -> ModelRoute:
    """Return the model's route; one that nobody answers for is known by its name only."""
    try:
        return route_of(tenant, model_id)
    except InvalidRequest:
        return ModelRoute(model_id, ())
