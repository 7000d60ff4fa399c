"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/tools/{tool_name+}": "get_tool",
    "GET /v1/toolgroups/{toolgroup_id}": "get_toolgroup",
    "POST /v1/tool-runtime/invoke": "invoke_tool",
    "GET /v1/tool-runtime/list-tools": "list_runtime_tools",
    "GET /v1/toolgroups": "list_toolgroups",
    "GET /v1/tools": "list_tools",
    "POST /v1/toolgroups": "register_toolgroup",
    "DELETE /v1/toolgroups/{toolgroup_id}": "unregister_toolgroup",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="toolgroups")
