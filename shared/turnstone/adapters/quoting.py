"""What a provider says, made fit to be shown: without secrets, addresses, and the messages that it repeats."""

import re
from collections.abc import Callable, Iterable, Sequence

from turnstone.domain.content import text_of
from turnstone.domain.messages import Message, UserMessage

QUOTED_CHARACTERS = 500
READ_CHARACTERS = 4_000
REDACTED = "[redacted]"
SHORTEST_REDACTED_TEXT = 12
# addresses of an inner network: URLs whose host has no dot or is of numbers, and such numbers alone
NUMBERS = r"(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"
IN_BRACKETS = r"\[[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*\](?::\d+)?"
INNER_ADDRESSES = re.compile(
    rf"\bhttps?://(?:[^\s/@]*@)?(?:{NUMBERS}|{IN_BRACKETS}|[\w-]+(?::\d+)?(?![\w.:-]))[^\s\"'<>)]*|(?<![\w.]){NUMBERS}(?![\w.]*\d)|{IN_BRACKETS}"
    r"|\blocalhost(?::\d+)?",
    re.IGNORECASE,
)


def quoted(
    text: str, messages: Sequence[Message], secrets: Iterable[str] = (), redacted: Callable[[str], str] = str
) -> str:
    """Return the text on one line and cut short, with the secrets and the messages blacked out.

    Args:
        redacted: blacks out what else nobody shall read; it is given a few thousand characters at most.
    """
    repeated = {text_of(message.content) for message in messages}
    repeated |= {text_of(m.context) for m in messages if isinstance(m, UserMessage) and m.context is not None}
    told = [each for each in repeated if len(each) >= SHORTEST_REDACTED_TEXT]
    for secret in (*sorted(told, key=len, reverse=True), *secrets):
        text = text.replace(secret, REDACTED) if secret else text
    text = " ".join(text.split())
    if len(text) > READ_CHARACTERS:
        text = text[:READ_CHARACTERS].rpartition(" ")[0] or text[:READ_CHARACTERS]  # without half of an address
    return redacted(text)[:QUOTED_CHARACTERS]


def without_address(text: str, host: str, port: int | None) -> str:
    """Return the text without this address, in whichever way it is written, and without those of inner networks."""
    name = re.escape(host)
    ways = [
        rf"https?://(?:[^\s/@]*@)?{name}(?![\w.-]*\w)[^\s\"'<>)]*",
        rf"(?<![\w.-]){name}:\d+",
        rf"host=(['\"]?){name}\1",
    ]
    if "." in host:  # one without a dot may be any word
        ways.append(rf"(?<![\w.-]){name}(?![\w-]|\.\w)")
    if port is not None:
        ways.append(rf"\bport\W{{1,3}}{port}\b")
    return INNER_ADDRESSES.sub(REDACTED, re.sub("|".join(ways), REDACTED, text, flags=re.IGNORECASE))
