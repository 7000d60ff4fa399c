"""POST /letta/v1/agents/import: create an agent from a file, with its blocks and messages."""

from turnstone.dialects.letta.files.agent_files import (
    MOST_FILE_BYTES,
    ImportedAgents,
    ImportFields,
    import_of,
    schema_of,
)
from turnstone.dialects.letta.ids import shown
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, checked, json_of, parse
from turnstone.http.route import FileField, Route


def import_letta_agent(request: Request) -> Reply:
    fields, content = parse(request, ImportFields), json_of(b"".join(request.file.parts()))
    importing = request.use_cases.letta_importing
    imported = import_of(checked(content, schema_of(content)), fields, importing.now)
    agent = importing.create(request.caller, imported, request.attempt)
    return reply(ImportedAgents(agent_ids=(shown("agent", agent.agent_id),)))


PATH = "/letta/v1/agents/import"
FIELD = FileField("file", most_bytes=MOST_FILE_BYTES)
ROUTE = Route("POST", PATH, import_letta_agent, ImportedAgents, ImportFields, dialect=LETTA, file=FIELD)
handler = LambdaHandler(__name__, ROUTE, loads="letta_importing")
