"""Every route of the API, for a process that serves them all: the lists of the families, one after another."""

from functions.agents import routes as agents
from functions.attachments import routes as attachments
from functions.inference import family as inference
from functions.llama_stack_2024 import changes, reads, streams
from functions.models import family as models
from functions.server import family as server
from functions.sessions import routes as sessions
from functions.shields import family as shields
from functions.steps import routes as steps
from functions.stored_completions import family as stored_completions
from functions.tools import family as tools
from functions.turns import routes as turns
from functions.unserved import methods
from functions.usage import family as usage

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
    usage,
    inference,
    stored_completions,
    changes,
    streams,
    reads,
)
ROUTES = tuple(route for family in FAMILIES for route in family.ROUTES)
UNSERVED = methods.ROUTES
