"""Replace values that differ from run to run by stable labels.

Ids, hashes and nonces are numbered in the order of their first appearance, so that a change of order shows. Times stay
as they are, because the clock is set by hand. Ports are replaced by the names of their servers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

# ids of responses, conversations and their items, secrets and signatures of webhooks, UUIDs, and the hexadecimal
# numbers of hashes, nonces, request ids and images
TOKEN = re.compile(
    r"(?<![0-9A-Za-z])(?:resp_[0-9A-Za-z_-]{40,}|conv_[0-9A-Za-z_-]{35,}|(?<=_)[0-9a-f]{52}|(?<=_)[0-9a-f]{36}"
    r"|(?:whsec_|v1,)[0-9A-Za-z+/]{20,}=*"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{24}"
    r"|[0-9a-f]{16}|(?<=photogen-)[0-9a-f]{12})(?![0-9A-Za-z])"
)
NAMED = {"resp_": "response", "conv_": "conversation", "whsec": "webhook secret"}
SIGNATURE = "v1,"
LABELS = {52: "request", 36: "id", 64: "sha", 32: "hex", 24: "request", 16: "mark", 12: "image"}


class Normaliser:
    """Replaces the tokens of one run, each by the same label everywhere.

    Attributes:
        tokens: every token found so far, constant ones included.
    """

    def __init__(self, replaced: Mapping[str, str], constant: Collection[str]) -> None:
        """Take fixed replacements, and the tokens that stay because they are equal in every run."""
        self._replaced = replaced
        self._pattern = (
            re.compile("|".join(map(re.escape, sorted(replaced, key=len, reverse=True)))) if replaced else None
        )
        self._constant = constant
        self._labels: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self.tokens: set[str] = set()

    def __call__(self, text: str) -> str:
        """Return the text with its tokens replaced; new tokens get the next numbers."""
        return TOKEN.sub(lambda found: self._label(found[0]), self.named(text))

    def named(self, text: str) -> str:
        """Return the text with the fixed replacements only."""
        return self._pattern.sub(lambda found: self._replaced[found[0]], text) if self._pattern else text

    def masked(self, text: str) -> str:
        """Return the text with labelled tokens replaced, and all other tokens by their kind."""
        return TOKEN.sub(lambda found: self._masked(found[0]), self.named(text))

    def _label(self, token: str) -> str:
        self.tokens.add(token)
        if token in self._constant:
            return token
        if token not in self._labels:
            kind = _kind(token)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._labels[token] = f"<{kind} {self._counts[kind]}>"
        return self._labels[token]

    def _masked(self, token: str) -> str:
        return token if token in self._constant else self._labels.get(token, f"<{_kind(token)}>")


def _kind(token: str) -> str:
    if token[:5] in NAMED:
        return NAMED[token[:5]]
    if token.startswith(SIGNATURE):
        return "signature"
    return LABELS[len(token)] if len(token) != 36 or "-" in token else "item"


def tokens_in(text: str) -> list[str]:
    """Return the tokens of a text in the order in which they first appear."""
    return list(dict.fromkeys(TOKEN.findall(text)))
