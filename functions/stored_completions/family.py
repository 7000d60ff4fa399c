"""The routes of this family as one function, which streams: stored completions may outgrow a buffered answer."""

from turnstone.edge.gateway import LambdaHandler

# relative: in a function this family is a package of its own, here a part of functions
from . import (
    delete_chat_completion,
    get_chat_completion,
    list_chat_completion_messages,
    list_chat_completions,
    update_chat_completion,
)

MODULES = (
    list_chat_completions,
    get_chat_completion,
    update_chat_completion,
    delete_chat_completion,
    list_chat_completion_messages,
)
ROUTES = tuple(module.ROUTE for module in MODULES)
handler = LambdaHandler(__name__, *ROUTES, loads="stored_completions")
