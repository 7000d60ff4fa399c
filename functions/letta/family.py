"""The routes of Letta's API as one function, which streams."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

BELOW = "/letta/v1"
TABLE = {
    "GET /letta/v1/health": "server.letta_health",
    "GET /letta/v1/models": "server.list_letta_models",
    "GET /letta/v1/models/embedding": "server.list_embedding_models",
    "GET /letta/v1/tags": "overview.list_tags",
    "GET /letta/v1/tools": "server.list_letta_tools",
    "POST /letta/v1/tools/add-base-tools": "server.add_base_tools",
    "GET /letta/v1/tools/name/{name}": "tools.get_tool_by_name",
    "GET /letta/v1/tools/{tool_id}": "tools.get_letta_tool",
    "GET /letta/v1/blocks": "blocks.list_blocks",
    "POST /letta/v1/blocks": "blocks.create_block",
    "GET /letta/v1/blocks/{block_id}": "blocks.get_block",
    "PATCH /letta/v1/blocks/{block_id}": "blocks.update_block",
    "DELETE /letta/v1/blocks/{block_id}": "blocks.delete_block",
    "PATCH /letta/v1/blocks/{block_id}/attach": "blocks.attach_block",
    "PATCH /letta/v1/blocks/{block_id}/detach": "blocks.detach_block",
    "GET /letta/v1/agents": "agents.list_letta_agents",
    "POST /letta/v1/agents": "agents.create_letta_agent",
    "GET /letta/v1/agents/{agent_id}": "agents.get_letta_agent",
    "PATCH /letta/v1/agents/{agent_id}": "agents.update_letta_agent",
    "DELETE /letta/v1/agents/{agent_id}": "agents.delete_letta_agent",
    "GET /letta/v1/agents/{agent_id}/context": "overview.get_context_overview",
    "GET /letta/v1/agents/{agent_id}/tools": "tools.list_agent_tools",
    "PATCH /letta/v1/agents/{agent_id}/add-tool/{tool_id}": "tools.add_agent_tool",
    "PATCH /letta/v1/agents/{agent_id}/remove-tool/{tool_id}": "tools.remove_agent_tool",
    "GET /letta/v1/agents/{agent_id}/memory": "memory.get_memory",
    "GET /letta/v1/agents/{agent_id}/memory/block": "memory.list_memory_blocks",
    "POST /letta/v1/agents/{agent_id}/memory/block": "memory.add_memory_block",
    "GET /letta/v1/agents/{agent_id}/memory/block/{block_label}": "memory.get_memory_block",
    "PATCH /letta/v1/agents/{agent_id}/memory/block/{block_label}": "memory.update_memory_block",
    "DELETE /letta/v1/agents/{agent_id}/memory/block/{block_label}": "memory.remove_memory_block",
    "GET /letta/v1/agents/{agent_id}/memory/messages": "overview.list_context_messages",
    "GET /letta/v1/agents/{agent_id}/memory/recall": "overview.get_recall_summary",
    "GET /letta/v1/agents/{agent_id}/memory/archival": "archival.get_archival_summary",
    "GET /letta/v1/agents/{agent_id}/archival": "archival.list_passages",
    "POST /letta/v1/agents/{agent_id}/archival": "archival.create_passages",
    "DELETE /letta/v1/agents/{agent_id}/archival/{memory_id}": "archival.delete_passage",
    "PATCH /letta/v1/agents/{agent_id}/reset-messages": "messages.reset_letta_messages",
    "GET /letta/v1/agents/{agent_id}/messages": "messages.list_letta_messages",
    "POST /letta/v1/agents/{agent_id}/messages": "messages.send_letta_messages",
    "POST /letta/v1/agents/{agent_id}/messages/stream": "messages.stream_letta_messages",
}
ROUTES = FamilyRoutes(__package__, TABLE, BELOW, has_slashes=True, unserved="server.unserved_methods")
handler = LambdaHandler(__name__, family=ROUTES, loads=("letta_agents", "letta_messages", "turns"))
