"""Every route of the API, for a process that serves them all: the lists of the families, one after another."""

from ..agents import routes as agents
from ..attachments import routes as attachments
from ..files import family as files
from ..inference import family as inference
from ..letta import family as letta
from ..letta.server import unserved_methods
from ..llama_stack_2024 import changes, reads, streams
from ..memory import family as memory
from ..models import family as models
from ..responses import family as responses
from ..server import family as server
from ..sessions import routes as sessions
from ..shields import family as shields
from ..steps import routes as steps
from ..stored_completions import family as stored_completions
from ..tenant import family as tenant
from ..tools import family as tools
from ..turns import routes as turns
from ..unserved import methods
from ..vector_stores import family as vector_stores

FAMILIES = (
    agents,
    sessions,
    attachments,
    turns,
    steps,
    server,
    models,
    tools,
    shields,
    tenant,
    inference,
    stored_completions,
    responses,
    letta,
    memory,
    files,
    vector_stores,
    changes,
    streams,
    reads,
)
ROUTES = tuple(route for family in FAMILIES for route in family.ROUTES)
UNSERVED = (*methods.ROUTES, *unserved_methods.ROUTES)
