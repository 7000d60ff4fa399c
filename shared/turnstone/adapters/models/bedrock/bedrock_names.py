"""Aliases of tool names and call ids that are valid for Bedrock."""

import re
from hashlib import sha256

MAX_CHARACTERS = 64
REFUSED = re.compile(r"[^A-Za-z0-9_-]")
HASH_CHARACTERS = 12


class Aliases:
    """A two-way map of names to unique aliases of 1 to 64 letters, digits, `_` and `-`.

    A valid and unused name is its own alias. An alias depends only on the names before it, so a growing history keeps
    its aliases, which prompt caches rely on.
    """

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def alias_of(self, name: str) -> str:
        """Return the name's alias."""
        alias = self._aliases.get(name)
        if alias is None:
            alias = self._free_alias(name)
            self._aliases[name] = alias
            self._names[alias] = name
        return alias

    def name_of(self, alias: str) -> str:
        """Return the name of the alias; an unassigned alias is its own name."""
        return self._names.get(alias, alias)

    def _free_alias(self, name: str) -> str:
        readable = alias = REFUSED.sub("_", name) or "_"
        attempt = 0
        while len(alias) > MAX_CHARACTERS or alias in self._names:
            digest = sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARACTERS]
            alias = f"{readable[: MAX_CHARACTERS - HASH_CHARACTERS - 1]}_{digest}"
            attempt += 1
        return alias
