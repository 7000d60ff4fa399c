"""Parts of agent files that this server does not import, each with the reason."""

EMPTY_LISTS = {
    "groups": "this server has no groups of agents",
    "files": "this server imports no files of sources",
    "sources": "this server imports no sources",
    "mcp_servers": "this server registers MCP servers by POST /v1/toolgroups, not by a file",
    "skills": "this server has no skills",
}
REFUSED = {
    "source_ids": "this server imports no sources",
    "folder_ids": "this server imports no sources",
    "files_agents": "this server imports no files of sources",
    "group_ids": "this server has no groups of agents",
    "multi_agent_group": "this server has no groups of agents",
    "identity_ids": "this server has no identities",
    "tool_exec_environment_variables": "this server imports no environment variables",
    "secrets": "this server imports no environment variables",
    "memory_variables": "this server has no templates",
    "from_template": "this server has no templates",
    "template": "this server has no templates",
    "initial_message_sequence": "the messages of the file are its messages",
    "message_buffer_autoclear": "an agent keeps its messages here",
    "enable_sleeptime": "this server has no background agents",
    "response_format": "this server lets the tools of the agent decide about its answers",
    "context_window_limit": "the operator of this server sets the context window of each model",
    "max_tokens": "the operator's model decides about the length of its answers",
}
