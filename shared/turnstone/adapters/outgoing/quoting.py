"""Make a provider's message safe to show: remove secrets, addresses, and repeated contents of messages."""

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
# internal addresses: URLs whose host has no dot or is numeric, and bare addresses
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
    """Return the text on one line, shortened, with secrets and messages redacted.

    Args:
        redacted: redacts other secrets; receives a few thousand characters at most.
    """
    parts = {part for message in messages for part in _parts(message) if len(part) >= SHORTEST_REDACTED_TEXT}
    # a part longer than the whole text cannot be repeated in it
    repeated = {form for part in parts if len(part) <= len(text) for form in _forms(part)}
    for secret in (*sorted(repeated, key=len, reverse=True), *secrets):
        text = text.replace(secret, REDACTED) if secret else text
    text = " ".join(text.split())
    if len(text) > READ_CHARACTERS:
        text = text[:READ_CHARACTERS].rpartition(" ")[0] or text[:READ_CHARACTERS]  # without half of an address
    return redacted(text)[:QUOTED_CHARACTERS]


def _parts(message: Message) -> Iterator[str]:
    """Yield each text of the messages: contents whole and in parts, and arguments of calls."""
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
    """Return the forms in which servers repeat a text: unchanged, in JSON, in nested JSON, as a Python literal."""
    once = {_in_json(text, is_ascii) for is_ascii in (True, False)}
    twice = {_in_json(form, is_ascii) for form in once for is_ascii in (True, False)}
    return {text, repr(text)[1:-1], *once, *twice}


def _in_json(text: str, is_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]


def without_address(text: str, host: str, port: int | None) -> str:
    """Return the text without this address in any spelling, and without internal addresses."""
    name = re.escape(host)
    ways = [
        rf"https?://(?:[^\s/@]*@)?{name}(?![\w.-]*\w)[^\s\"'<>)]*",
        rf"(?<![\w.-]){name}:\d+",
        rf"host=(['\"]?){name}\1",
    ]
    if "." in host:  # a name without a dot may be any word
        ways.append(rf"(?<![\w.-]){name}(?![\w-]|\.\w)")
    if port is not None:
        ways.append(rf"\bport\W{{1,3}}{port}\b")
    return INNER_ADDRESSES.sub(REDACTED, re.sub("|".join(ways), REDACTED, text, flags=re.IGNORECASE))
