"""What a provider says, made fit to be shown: without secrets, and without the messages that it repeats."""

from collections.abc import Iterable, Sequence

from turnstone.domain.content import text_of
from turnstone.domain.messages import Message, UserMessage

QUOTED_CHARACTERS = 500
REDACTED = "[redacted]"
SHORTEST_REDACTED_TEXT = 12


def quoted(text: str, messages: Sequence[Message], secrets: Iterable[str] = ()) -> str:
    """Return the text on one line and cut short, with the secrets and the messages blacked out."""
    repeated = {text_of(message.content) for message in messages}
    repeated |= {text_of(m.context) for m in messages if isinstance(m, UserMessage) and m.context is not None}
    told = [each for each in repeated if len(each) >= SHORTEST_REDACTED_TEXT]
    for secret in (*sorted(told, key=len, reverse=True), *secrets):
        text = text.replace(secret, REDACTED) if secret else text
    return " ".join(text.split())[:QUOTED_CHARACTERS]
