"""JSON objects in parts: around a list whose entries are written one by one, or made of two objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json


def before_entries(fields: Mapping[str, Any], list_name: str) -> bytes:
    """Return the JSON of an object with these fields, up to the first entry of the list that follows them."""
    return to_json({**fields, list_name: ()})[: -len(b"]}")]


def after_entries(fields: Mapping[str, Any]) -> bytes:
    """Return the JSON of an object after the last entry of a list: the end of the list, and these fields.

    Its names must differ from those of `before_entries`.
    """
    return (b"]," if fields else b"]") + to_json(fields)[len(b"{") :]


def with_fields(whole: bytes, fields: Mapping[str, Any]) -> bytes:
    """Return the JSON of an object with these fields after its own. Neither may be empty."""
    return whole[: -len(b"}")] + b"," + to_json(fields)[len(b"{") :]
