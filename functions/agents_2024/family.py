"""The quick routes of September 2024 as one function: they are asked for rarely, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler

# relative: in a function this family is a package of its own, here a part of functions
from . import (
    create_agent_2024,
    create_session_2024,
    delete_agent_2024,
    delete_session_2024,
    get_step_2024,
    get_turn_2024,
    read_step_2024,
    read_turn_2024,
)

ROUTES = tuple(
    module.ROUTE
    for module in (
        create_agent_2024,
        create_session_2024,
        delete_agent_2024,
        delete_session_2024,
        get_step_2024,
        get_turn_2024,
        read_step_2024,
        read_turn_2024,
    )
)
handler = LambdaHandler(__name__, *ROUTES, loads=("agents", "sessions", "deleting", "reader"))
