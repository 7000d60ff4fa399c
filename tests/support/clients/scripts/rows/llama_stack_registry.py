"""Registered entries: tools, toolgroups, MCP servers, shields, vector databases, providers; and set-up scripts."""

from __future__ import annotations

from typing import Any

from llama_stack_agents import register_guard
from llama_stack_client_used import client, session_of, start_turn, user
from scenario import EMBEDDING, GUARD, MCP_URL, method_of, raised_by, row


@row
def toolgroups_and_tools_are_listed() -> Any:
    tools = client.tools.list(toolgroup_id="builtin::clock")
    runtime = client.tool_runtime.list_tools(tool_group_id="builtin::clock")
    return {
        "group": client.toolgroups.get("builtin::clock").identifier,
        "groups": "builtin::clock" in [group.identifier for group in client.toolgroups.list()],
        "tools": [name_of(tool) for tool in tools],
        "tool": name_of(client.tools.get("current_time")),
        "same": [tool.to_dict() for tool in tools] == [tool.to_dict() for tool in runtime],
    }


def name_of(tool: Any) -> list[Any]:
    """Return the name of a tool, with the further fields of the client's dialect."""
    if hasattr(client, "alpha"):
        return [tool.name, tool.toolgroup_id, bool(tool.input_schema)]
    return [tool.identifier, tool.toolgroup_id, tool.provider_resource_id == tool.identifier and tool.type == "tool"]


@row
def tool_is_invoked() -> Any:
    answer = client.tool_runtime.invoke_tool(tool_name="current_time", kwargs={"timezone": "UTC"})
    return [type(answer.content).__name__, answer.error_code, answer.error_message]


@row
def mcp_server() -> Any:
    client.toolgroups.register(
        toolgroup_id="mcp::table", provider_id="model-context-protocol", mcp_endpoint={"uri": MCP_URL}
    )
    names = [name_of(tool)[0] for tool in client.tools.list(toolgroup_id="mcp::table")]
    answer = client.tool_runtime.invoke_tool(tool_name="add", kwargs={"a": 3, "b": 4})
    content = [part if isinstance(part, dict) else part.to_dict() for part in answer.content]
    turn = start_turn(session_of(toolgroups=["mcp::table"]), 'call add {"a": 3, "b": 4}')
    client.toolgroups.unregister("mcp::table")
    return {
        "listed": "add" in names,
        "content": content,
        "error_code": answer.error_code,
        "steps": turn["turn"]["steps"],
        "text": turn["text"],
        "gone": raised_by(lambda: client.toolgroups.get("mcp::table"))[:2],
    }


@row
def shields_are_registered_and_run() -> Any:
    register_guard()
    clean = client.safety.run_shield(shield_id=GUARD, messages=user("hello"), params={})
    found = client.safety.run_shield(shield_id=GUARD, messages=user("a bomb"), params={}).violation
    return {
        "shield": [client.shields.retrieve(GUARD).identifier, client.shields.retrieve(GUARD).provider_id],
        "listed": GUARD in [shield.identifier for shield in client.shields.list()],
        "clean": clean.violation,
        "found": [found.violation_level, found.user_message[:7]],
    }


@row
def shield_is_deleted() -> Any:
    delete = method_of(client, "shields.delete")
    client.shields.register(shield_id="passing", provider_id="llama-guard", provider_shield_id=GUARD)
    delete("passing")
    return "passing" in [shield.identifier for shield in client.shields.list()]


@row
def documents_are_found_for_retrieval() -> Any:
    bank = {"vector_db_id": "shore", "embedding_model": EMBEDDING, "embedding_dimension": 3}
    if hasattr(client, "vector_dbs"):
        client.vector_dbs.register(**bank)
    else:
        client.post("/v1/vector-dbs", body=bank, cast_to=object)
    texts = {"terns": "Terns dive for fish.", "knots": "Knots probe the mud."}
    documents: list[Any] = [
        {"document_id": name, "content": text, "mime_type": "text/plain", "metadata": {"page": 1}}
        for name, text in texts.items()
    ]
    rag = client.tool_runtime.rag_tool
    rag.insert(vector_db_id="shore", documents=documents, chunk_size_in_tokens=64)
    config: Any = {
        "query_generator_config": {"type": "default", "separator": " "},
        "max_tokens_in_context": 100,
        "max_chunks": 1,
        "chunk_template": "{index}: {chunk.content} {metadata}",
        "mode": "keyword",
    }
    found = rag.query(content="Which birds probe?", vector_db_ids=["shore"], query_config=config)
    content: Any = found.content
    nothing = rag.query(content="Which birds sing?", vector_db_ids=["shore"], query_config=config)
    chunks = client.vector_io.query(vector_db_id="shore", query="birds that dive", params={"mode": "keyword"}).chunks
    return {
        "shown": [part.text for part in content][1],
        "ids": found.metadata["document_ids"],
        "scores": len(found.metadata["scores"]),
        "nothing": nothing.content,
        "chunks": [chunk.content for chunk in chunks],
    }


@row
def providers_are_listed() -> Any:
    providers = client.providers.list()
    first = client.providers.retrieve(providers[0].provider_id)
    return [first.provider_id == providers[0].provider_id, {"inference", "agents"} <= {each.api for each in providers}]


@row
def set_up_script() -> Any:
    groups = client.toolgroups
    groups.register(toolgroup_id="builtin::websearch", provider_id="brave-search")
    groups.register(toolgroup_id="builtin::websearch", provider_id="tavily-search")
    groups.register(toolgroup_id="builtin::wolfram_alpha", provider_id="wolfram-alpha")
    groups.unregister("builtin::websearch")
    groups.register(toolgroup_id="builtin::websearch", provider_id="tavily-search")
    register_guard()
    register_guard()
    return "builtin::websearch" in [group.identifier for group in groups.list()]
