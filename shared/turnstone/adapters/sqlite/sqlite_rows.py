"""Columns of a row in the SQLite file, apart from a record's body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from turnstone.adapters.sqlite.sqlite_failures import HOW_TO_MEND
from turnstone.domain.errors import StoreUnavailable
from turnstone.ports.records import Scalar

_json_of = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@lru_cache(maxsize=1_024)
def attributes_in(text: str) -> Mapping[str, Scalar]:
    """Return a record's attributes as a shared, immutable mapping: most records of a range have the same few.

    Raises:
        StoreUnavailable: the row is damaged.
    """
    try:
        attributes: dict[str, Scalar] = json.loads(text)
    except (ValueError, TypeError) as exc:
        raise StoreUnavailable(f"a record's attributes are damaged ({exc}): {HOW_TO_MEND}") from exc
    return MappingProxyType(attributes)


def row_of(
    rev: int, attributes: Mapping[str, Scalar | None], nonce: str | None
) -> tuple[int, Scalar | None, str, str | None]:
    """Return the columns rev, open, attributes and nonce."""
    present = {name: value for name, value in attributes.items() if value is not None}
    return rev, present.get("open"), _json_of(present), nonce
