"""What a provider says, made fit to be shown: without secrets, addresses, and the messages that it repeats."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from turnstone.domain.messages.messages import CompletionMessage, Message, UserMessage
from turnstone.domain.values.content import TextItem, items_of, text_of
from turnstone.domain.values.frozen import JsonValue

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
    parts = {part for message in messages for part in _parts(message) if len(part) >= SHORTEST_REDACTED_TEXT}
    # what is longer than all that is said is not repeated in it
    told = {form for part in parts if len(part) <= len(text) for form in _forms(part)}
    for secret in (*sorted(told, key=len, reverse=True), *secrets):
        text = text.replace(secret, REDACTED) if secret else text
    text = " ".join(text.split())
    if len(text) > READ_CHARACTERS:
        text = text[:READ_CHARACTERS].rpartition(" ")[0] or text[:READ_CHARACTERS]  # without half of an address
    return redacted(text)[:QUOTED_CHARACTERS]


def _parts(message: Message) -> Iterator[str]:
    """Yield each text of the message: its contents whole and in parts, and the arguments of its calls."""
    contents = [message.content]
    if isinstance(message, UserMessage) and message.context is not None:
        contents.append(message.context)
    for content in contents:
        yield text_of(content)
        yield from (item.text for item in items_of(content) if isinstance(item, TextItem))
    if isinstance(message, CompletionMessage):
        for call in message.tool_calls:
            yield call.arguments_json or ""
            yield from _texts_in(call.arguments)


def _texts_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)


def _forms(text: str) -> set[str]:
    """Return the text as servers repeat it: as it is, in JSON, in JSON within JSON, in Python's way."""
    once = {_in_json(text, is_ascii) for is_ascii in (True, False)}
    twice = {_in_json(form, is_ascii) for form in once for is_ascii in (True, False)}
    return {text, repr(text)[1:-1], *once, *twice}


def _in_json(text: str, is_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]


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
