"""Parameters of the export of an agent."""

from collections.abc import Mapping
from typing import Any

from turnstone.dialects.letta.message_requests import FALSE, TRUE, flag_in
from turnstone.domain.errors import InvalidRequest

FLAG: Mapping[str, Any] = {"enum": [*TRUE, *FALSE]}
NO_CONVERSATIONS = "conversation_id: an agent has one conversation here; leave it out"
NO_OLD_SCHEMA = "use_legacy_format: this server writes files in the newer schema; leave it out"
EXPORT_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "scrub_messages": {"description": "Whether the file has no messages.", "schema": FLAG},
    "use_legacy_format": {"description": "Whether the file has the older schema; true is refused.", "schema": FLAG},
}


def keeps_messages(query: Mapping[str, list[str]]) -> bool:
    """Return whether the file has the agent's messages. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    if flag_in("use_legacy_format", texts.get("use_legacy_format")):
        raise InvalidRequest(NO_OLD_SCHEMA, ("query", "use_legacy_format"))
    if texts.get("conversation_id"):
        raise InvalidRequest(NO_CONVERSATIONS, ("query", "conversation_id"))
    return not flag_in("scrub_messages", texts.get("scrub_messages"))
