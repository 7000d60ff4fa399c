"""The routes of Letta's API as one function, which streams."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

BELOW = "/letta/v1"
TABLE = {
    "GET /letta/v1/health": "server.letta_health",
    "GET /letta/v1/models": "server.list_letta_models",
    "GET /letta/v1/tools": "server.list_letta_tools",
    "POST /letta/v1/tools/add-base-tools": "server.add_base_tools",
    "GET /letta/v1/agents": "agents.list_letta_agents",
    "POST /letta/v1/agents": "agents.create_letta_agent",
    "GET /letta/v1/agents/{agent_id}": "agents.get_letta_agent",
    "PATCH /letta/v1/agents/{agent_id}": "agents.update_letta_agent",
    "DELETE /letta/v1/agents/{agent_id}": "agents.delete_letta_agent",
    "GET /letta/v1/agents/{agent_id}/memory": "memory.get_memory",
    "GET /letta/v1/agents/{agent_id}/memory/block": "memory.list_memory_blocks",
    "POST /letta/v1/agents/{agent_id}/memory/block": "memory.add_memory_block",
    "GET /letta/v1/agents/{agent_id}/memory/block/{block_label}": "memory.get_memory_block",
    "PATCH /letta/v1/agents/{agent_id}/memory/block/{block_label}": "memory.update_memory_block",
    "DELETE /letta/v1/agents/{agent_id}/memory/block/{block_label}": "memory.remove_memory_block",
    "GET /letta/v1/agents/{agent_id}/memory/archival": "archival.get_archival_summary",
    "GET /letta/v1/agents/{agent_id}/archival": "archival.list_passages",
    "POST /letta/v1/agents/{agent_id}/archival": "archival.create_passages",
    "DELETE /letta/v1/agents/{agent_id}/archival/{memory_id}": "archival.delete_passage",
    "PATCH /letta/v1/agents/{agent_id}/reset-messages": "messages.reset_letta_messages",
    "GET /letta/v1/agents/{agent_id}/messages": "messages.list_letta_messages",
    "POST /letta/v1/agents/{agent_id}/messages": "messages.send_letta_messages",
    "POST /letta/v1/agents/{agent_id}/messages/stream": "messages.stream_letta_messages",
    "POST /letta/v1/agents/{agent_id}/messages/async": "runs.start_letta_run",
    "PATCH /letta/v1/agents/{agent_id}/messages/{message_id}": "messages.update_letta_message",
    "GET /letta/v1/runs": "runs.list_letta_runs",
    "GET /letta/v1/runs/active": "runs.list_active_runs",
    "GET /letta/v1/runs/{run_id}": "runs.get_letta_run",
    "DELETE /letta/v1/runs/{run_id}": "runs.delete_letta_run",
    "GET /letta/v1/runs/{run_id}/messages": "runs.list_run_messages",
    "GET /letta/v1/runs/{run_id}/usage": "runs.get_run_usage",
}
ROUTES = FamilyRoutes(__package__, TABLE, BELOW, has_slashes=True)
handler = LambdaHandler(__name__, family=ROUTES, loads=("letta_agents", "letta_messages", "turns"))
