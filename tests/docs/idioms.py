"""Wording that the documentation avoids, each with the word of the field to write in its place."""

from __future__ import annotations

import re
from typing import NamedTuple


class Idiom(NamedTuple):
    """A private idiom.

    Attributes:
        pattern: a regular expression of its forms, matched as whole words and in any case.
        instead: the replacement.
    """

    pattern: str
    instead: str


IDIOMS = (
    Idiom(r"tells?|told|telling|untold", "emit, report, return, name, state; pending"),
    Idiom(r"say|says|said|saying", "message, state, show, return"),
    Idiom(r"asks?|asked|asking", "request, call, query, prompt"),
    Idiom(r"knows?|known|knew", "configured, cached, recognised, defined"),
    Idiom(r"wants?|wanted", "need, require, query"),
    Idiom(r"places?|placed", "slot, environment, position"),
    Idiom(r"means?|meant", "is, has the effect, dependencies"),
    Idiom(r"stamp(?:s|ed|ing)?", "owner and access list"),
    Idiom(r"lanes?", "thread pool"),
    Idiom(r"look(?:s|ed|ing)?", "poll, read, lookup, search"),
    Idiom(r"attend(?:s|ed|ing)?", "reconcile"),
    Idiom(r"hand(?:s|ed|ing)? (?:\w+ )?(?:over|out|on|back)", "hand off, pass, return"),
    Idiom(r"(?:go|goes|gone|going|went) on", "resume, continue"),
    Idiom(r"(?:give|gives|given|giving|gave) (?:\w+ ){0,2}up", "cancel"),
    Idiom(r"hears?|heard|hearing", "receive"),
    Idiom(r"listens? to it|who listens|listeners?", "subscriber"),
    Idiom(r"what (?:is|are|was|were|has|had|may|can|it|they|no)", "a noun: the value, the settings, the request"),
    Idiom(r"who(?:ever|soever|mever|m)?", "the caller, the user, the process"),
    Idiom(r"whosever|whosesoever", "of any owner"),
    Idiom(r"(?:no|some|every|any)body", "no caller, a caller, every caller"),
    Idiom(r"for ever|be it|shall|behind it|beside it", "forever, or, must, after it, next to it"),
    Idiom(r"anew|once more|in vain|at hand|meanwhile", "again, without success, available"),
    Idiom(r"broken off|breaks? off|break (?:it|them) off", "cancelled, aborted"),
    Idiom(r"exhibit(?:s|ed)?", "excerpt for moderation"),
)


def found_in(text: str) -> list[str]:
    """Return a line for each idiom in the text: its line, the words, and the replacement."""
    found = []
    for idiom in IDIOMS:
        for match in re.finditer(rf"\b(?:{idiom.pattern})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {match[0]!r}: write {idiom.instead}")
    return found
