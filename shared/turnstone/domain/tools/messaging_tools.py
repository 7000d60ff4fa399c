"""The tool by which an agent answers its user, where each inference must call a tool.

Source: the name and the argument of Letta's base tool.
"""

from turnstone.domain.tools.tools import ToolDef, ToolParameter

MESSAGING = "letta::core"
SEND_NAME = "send_message"
SEND = ToolDef(
    name=SEND_NAME,
    description="Send a message to the user.",
    parameters=(
        ToolParameter(name="message", parameter_type="string", description="The message, in the language of the user."),
    ),
)
SENT = "None"
