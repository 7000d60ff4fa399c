"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.cold_start import for_good
from turnstone.edge.gateway import LambdaHandler

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import (
        delete_openai_model,
        get_model,
        get_openai_model,
        get_provider,
        list_models,
        list_openai_models,
        list_providers,
        register_model,
        unregister_model,
    )

ROUTES = tuple(
    module.ROUTE
    for module in (
        delete_openai_model,
        get_model,
        get_openai_model,
        get_provider,
        list_models,
        list_openai_models,
        list_providers,
        register_model,
        unregister_model,
    )
)
handler = LambdaHandler(__name__, *ROUTES, loads="models")
