"""Methods of Letta's client that this server does not have.

Source: the resources of `letta-client` 0.1.16.
"""

from turnstone.dialects.letta.server.later_methods import LATER
from turnstone.dialects.unserved import Group, rows_of
from turnstone.domain.unserved import Unserved

PREFIXES = ("/letta/v1",)
LIST = "list the agents: GET /letta/v1/agents has the parameters name, tags and query_text"
MODELS = "the operator of this server sets its model providers; GET /letta/v1/models lists the models"
TOOLS = "an agent of the Llama Stack API has tools of MCP servers: POST /v1/toolgroups"
GROUPS: tuple[Group, ...] = (
    (PREFIXES, LIST, "POST /agents/search agents.search"),
    (
        PREFIXES,
        "",
        """
        POST /agents/{agent_id}/migrate agents.templates.migrate
        POST /agents/{agent_id}/template agents.templates.create
        POST /agents/{agent_id}/version-template agents.templates.create_version
        GET /agents/{agent_id}/variables agents.memory_variables.get
        """,
    ),
    (
        PREFIXES,
        TOOLS,
        """
        GET /tools/composio/apps tools.list_composio_apps
        GET /tools/composio/apps/{composio_app_name}/actions tools.list_composio_actions_by_app
        POST /tools/composio/{composio_action_name} tools.add_composio_tool
        """,
    ),
    (
        PREFIXES,
        MODELS,
        """
        GET /providers providers.list_providers
        POST /providers providers.create_provider
        PUT /providers providers.update_provider
        DELETE /providers providers.delete_provider
        """,
    ),
)


def unserved() -> tuple[Unserved, ...]:
    """Return all methods of Letta's clients that are refused by name."""
    return tuple(rows_of((*GROUPS, *LATER)))
