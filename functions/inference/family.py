"""The routes of this family as one function, which streams: embeddings, too, may outgrow a buffered answer."""

from turnstone.edge.gateway import LambdaHandler

# relative: in a function this family is a package of its own, here a part of functions
from . import (
    chat_completion,
    create_chat_completion,
    create_completion,
    create_embedding,
    embed_contents,
    infer_completion,
)

MODULES = (
    chat_completion,
    create_chat_completion,
    infer_completion,
    create_completion,
    create_embedding,
    embed_contents,
)
ROUTES = tuple(module.ROUTE for module in MODULES)
handler = LambdaHandler(__name__, *ROUTES, loads="inferring")
