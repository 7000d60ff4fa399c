"""Names that Bedrock takes, in the place of those that it does not: of tools, and of calls."""

import re
from hashlib import sha256

MAX_CHARACTERS = 64
REFUSED = re.compile(r"[^A-Za-z0-9_-]")
HASH_CHARACTERS = 12


class Aliases:
    """Tells names of 1 to 64 letters, digits, `_` and `-`, each another one, and knows the way back.

    A name that can be told as it is, and that no other is told by, keeps itself. What a name is told by depends on
    those before it only, so a history that grows is told by the same names, which is what caches of prompts look for.
    """

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._meant: dict[str, str] = {}

    def told(self, name: str) -> str:
        """Return what the provider knows it by."""
        alias = self._told.get(name)
        if alias is None:
            alias = self._free_alias(name)
            self._told[name] = alias
            self._meant[alias] = name
        return alias

    def meant(self, alias: str) -> str:
        """Return the name that is told like this; what was never told is meant as it is."""
        return self._meant.get(alias, alias)

    def _free_alias(self, name: str) -> str:
        readable = alias = REFUSED.sub("_", name) or "_"
        attempt = 0
        while len(alias) > MAX_CHARACTERS or alias in self._meant:
            digest = sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARACTERS]
            alias = f"{readable[: MAX_CHARACTERS - HASH_CHARACTERS - 1]}_{digest}"
            attempt += 1
        return alias
