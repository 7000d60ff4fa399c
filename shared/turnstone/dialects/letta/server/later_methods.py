"""Methods of later clients of Letta that this server does not have.

Source: the resources of `letta-client` 1.12.
"""

from turnstone.dialects.unserved import Group

PREFIXES = ("/letta/v1",)
BLOCKS = "PATCH /letta/v1/blocks/{block_id}/attach and …/detach have the parameter agent_id"
FOLDERS = "POST /letta/v1/sources/{source_id}/attach and …/detach have the parameter agent_id"
UPLOADS = "POST /letta/v1/sources/{source_id}/upload answers with a job"
PASSAGES = "GET /letta/v1/agents/{agent_id}/archival-memory lists the passages, and the agent searches them"
MESSAGES = "GET /letta/v1/agents/{agent_id}/messages lists the messages of an agent"
RUNS = "DELETE /letta/v1/runs/{run_id} cancels a run"
MCP = "an agent of the Llama Stack API has tools of MCP servers: POST /v1/toolgroups"
TOOLS = "GET /letta/v1/tools lists the tools"
RUN_TOOL = "POST /letta/v1/tools/run runs a source"
LATER: tuple[Group, ...] = (
    (
        PREFIXES,
        BLOCKS,
        """
        PATCH /agents/{agent_id}/core-memory/blocks/attach/{block_id} agents.blocks.attach
        PATCH /agents/{agent_id}/core-memory/blocks/detach/{block_id} agents.blocks.detach
        """,
    ),
    (
        PREFIXES,
        FOLDERS,
        """
        PATCH /agents/{agent_id}/folders/attach/{folder_id} agents.folders.attach
        PATCH /agents/{agent_id}/folders/detach/{folder_id} agents.folders.detach
        """,
    ),
    (PREFIXES, UPLOADS, "POST /folders/{folder_id}/upload folders.files.upload"),
    (
        PREFIXES,
        PASSAGES,
        """
        GET /agents/{agent_id}/archival-memory/search agents.passages.search
        POST /passages/search passages.search
        """,
    ),
    (
        PREFIXES,
        MESSAGES,
        """
        GET /messages messages.list
        GET /messages/{message_id} messages.retrieve
        POST /messages/search messages.search
        """,
    ),
    (PREFIXES, RUNS, "POST /agents/{agent_id}/messages/cancel agents.messages.cancel"),
    (
        PREFIXES,
        MCP,
        """
        GET /mcp-servers mcp_servers.list
        POST /mcp-servers mcp_servers.create
        GET /mcp-servers/{mcp_server_id} mcp_servers.retrieve
        PATCH /mcp-servers/{mcp_server_id} mcp_servers.update
        DELETE /mcp-servers/{mcp_server_id} mcp_servers.delete
        PATCH /mcp-servers/{mcp_server_id}/refresh mcp_servers.refresh
        GET /mcp-servers/{mcp_server_id}/tools mcp_servers.tools.list
        GET /mcp-servers/{mcp_server_id}/tools/{tool_id} mcp_servers.tools.retrieve
        POST /mcp-servers/{mcp_server_id}/tools/{tool_id}/run mcp_servers.tools.run
        """,
    ),
    (PREFIXES, TOOLS, "POST /tools/search tools.search"),
    (PREFIXES, RUN_TOOL, "POST /agents/{agent_id}/tools/{tool_name}/run agents.tools.run"),
    (
        PREFIXES,
        "",
        """
        GET /agents/{agent_id}/schedule agents.schedule.list
        POST /agents/{agent_id}/schedule agents.schedule.create
        GET /agents/{agent_id}/schedule/{scheduled_message_id} agents.schedule.retrieve
        DELETE /agents/{agent_id}/schedule/{scheduled_message_id} agents.schedule.delete
        GET /agents/{agent_id}/files agents.files.list
        PATCH /agents/{agent_id}/files/close-all agents.files.close_all
        PATCH /agents/{agent_id}/files/{file_id}/close agents.files.close
        PATCH /agents/{agent_id}/files/{file_id}/open agents.files.open
        PATCH /agents/{agent_id}/archives/attach/{archive_id} agents.archives.attach
        PATCH /agents/{agent_id}/archives/detach/{archive_id} agents.archives.detach
        PATCH /agents/{agent_id}/identities/attach/{identity_id} agents.identities.attach
        PATCH /agents/{agent_id}/identities/detach/{identity_id} agents.identities.detach
        PATCH /agents/{agent_id}/tools/approval/{tool_name} agents.tools.update_approval
        POST /agents/{agent_id}/recompile agents.recompile
        POST /agents/{agent_id}/summarize agents.messages.compact
        GET /archives archives.list
        POST /archives archives.create
        GET /archives/{archive_id} archives.retrieve
        PATCH /archives/{archive_id} archives.update
        DELETE /archives/{archive_id} archives.delete
        POST /archives/{archive_id}/passages archives.passages.create
        POST /archives/{archive_id}/passages/batch archives.passages.create_many
        DELETE /archives/{archive_id}/passages/{passage_id} archives.passages.delete
        GET /blocks/{block_id}/agents blocks.agents.list
        GET /client-side-access-tokens access_tokens.list
        POST /client-side-access-tokens access_tokens.create
        DELETE /client-side-access-tokens/{token} access_tokens.delete
        GET /conversations conversations.list
        POST /conversations conversations.create
        GET /conversations/{conversation_id} conversations.retrieve
        PATCH /conversations/{conversation_id} conversations.update
        DELETE /conversations/{conversation_id} conversations.delete
        POST /conversations/{conversation_id}/cancel conversations.cancel
        POST /conversations/{conversation_id}/compact conversations.messages.compact
        POST /conversations/{conversation_id}/fork conversations.fork
        GET /conversations/{conversation_id}/messages conversations.messages.list
        POST /conversations/{conversation_id}/messages conversations.messages.create
        POST /conversations/{conversation_id}/recompile conversations.recompile
        POST /conversations/{conversation_id}/stream conversations.messages.stream
        GET /folders/{folder_id}/agents folders.agents.list
        GET /folders/{folder_id}/files/{file_id} folders.files.retrieve
        GET /runs/{run_id}/steps runs.steps.list
        POST /runs/{run_id}/stream runs.messages.stream
        GET /runs/{run_id}/trace runs.trace.retrieve
        GET /steps steps.list
        GET /steps/{step_id} steps.retrieve
        PATCH /steps/{step_id}/feedback steps.feedback.create
        GET /steps/{step_id}/messages steps.messages.list
        GET /steps/{step_id}/metrics steps.metrics.retrieve
        GET /steps/{step_id}/trace steps.trace.retrieve
        POST /templates templates.create
        PATCH /templates/{template_name} templates.update
        DELETE /templates/{template_name} templates.delete
        POST /templates/{template_name}/rollback templates.rollback
        POST /templates/{template_name}/save templates.save
        POST /templates/{template_version}/agents templates.agents.create
        """,
    ),
)
