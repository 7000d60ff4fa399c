"""Base tools: an agent edits its memory blocks, keeps and finds passages, and answers its user by them.

Source: the names, arguments and effects of Letta's base tools.
"""

from turnstone.domain.tools.tool_runs import SEND_NAME
from turnstone.domain.tools.tools import ToolDef, ToolParameter

CORE_MEMORY = "builtin::core_memory"
APPEND_NAME = "core_memory_append"
REPLACE_NAME = "core_memory_replace"
LABEL = ToolParameter(name="label", parameter_type="string", description="The label of the memory block to change.")
APPEND = ToolDef(
    name=APPEND_NAME,
    description="Add a text, on a new line, to one of the memory blocks that your instructions show.",
    parameters=(
        LABEL,
        ToolParameter(name="content", parameter_type="string", description="The text to add."),
    ),
)
REPLACE = ToolDef(
    name=REPLACE_NAME,
    description="Replace a text in one of the memory blocks that your instructions show; an empty new text deletes it.",
    parameters=(
        LABEL,
        ToolParameter(
            name="old_content", parameter_type="string", description="The text to replace, exactly as it is shown."
        ),
        ToolParameter(name="new_content", parameter_type="string", description="The text to put in its place."),
    ),
)
ARCHIVAL_MEMORY = "builtin::archival_memory"
ARCHIVAL_INSERT = ToolDef(
    name="archival_memory_insert",
    description="Keep a text in archival memory, which has room for more than your instructions; write it complete.",
    parameters=(
        ToolParameter(name="content", parameter_type="string", description="The text to keep, with its context."),
    ),
)
PAGE = ToolParameter(
    name="page", parameter_type="integer", description="The page of the results, from 0.", required=False, default=0
)
ARCHIVAL_SEARCH = ToolDef(
    name="archival_memory_search",
    description="Search archival memory for texts that fit a query.",
    parameters=(
        ToolParameter(name="query", parameter_type="string", description="What to search for."),
        PAGE,
    ),
)
SEND = ToolDef(
    name=SEND_NAME,
    description="Send a message to the user.",
    parameters=(
        ToolParameter(name="message", parameter_type="string", description="The message, in the language of the user."),
    ),
)
SENT = "None"
CONVERSATION_SEARCH_NAME = "conversation_search"
CONVERSATION_SEARCH = ToolDef(
    name=CONVERSATION_SEARCH_NAME,
    description="Search the earlier messages of this conversation for a text, the newest first.",
    parameters=(
        ToolParameter(name="query", parameter_type="string", description="A text that the messages contain."),
        PAGE,
    ),
)
MULTI_AGENT = "letta::multi_agent"
OTHER_AGENT = ToolParameter(
    name="other_agent_id", parameter_type="string", description="The id of the agent to send the message to."
)
TO_AGENT = ToolParameter(
    name="message", parameter_type="string", description="The message, with all that the other agent needs."
)
CALL_AGENT = ToolDef(
    name="send_message_to_agent_and_wait_for_reply",
    description="Send a message to another agent, and wait for its answer.",
    parameters=(TO_AGENT, OTHER_AGENT),
)
NOTIFY_AGENT = ToolDef(
    name="send_message_to_agent_async",
    description="Send a message to another agent, which reads it later; there is no answer.",
    parameters=(TO_AGENT, OTHER_AGENT),
)
CALL_AGENTS = ToolDef(
    name="send_message_to_agents_matching_all_tags",
    description="Send a message to every agent that has all of these tags, and wait for their answers.",
    input_schema={
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": TO_AGENT.description},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "The tags that each agent has."},
        },
        "required": ["message", "tags"],
    },
)
