"""Valid bodies of the routes of files and uploads, each with its grade."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any

from tests.support.clients.forms import FormBody
from tests.support.server.body_shapes import RIGHT, UNSURE, WRONG, Shape, exact, many, nullable, number, one_of, text

FILES, UPLOADS = "/v1/openai/v1/files", "/v1/openai/v1/uploads"
PURPOSE = one_of("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
CONTENT = "Herons nest."


def _named(value: Any) -> int:
    is_name = isinstance(value, str) and re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]{1,512}", value)
    return RIGHT if is_name else WRONG


def _typed(value: Any) -> int:
    return RIGHT if isinstance(value, str) and re.fullmatch(r"[\x20-\x7e]{0,255}", value) else WRONG


def _whole(least: int, most: int) -> Shape:
    shape = number(whole_from=least, whole_to=most)
    return lambda value: WRONG if isinstance(value, str | bool) else shape(value)


EXPIRY = exact({"anchor": one_of("created_at"), "seconds": _whole(3_600, 2_592_000)})
CREATED = exact(
    {"bytes": _whole(0, 8 * 1024**3), "filename": _named, "mime_type": _typed, "purpose": PURPOSE},
    {"expires_after": EXPIRY},
)
COMPLETED = exact({"part_ids": many(text)}, {"md5": nullable(text)})


def completion_grade(value: Any, part_ids: Sequence[str]) -> int:
    """Grade the completion of an upload with these parts."""
    if not COMPLETED(value):
        return WRONG
    return RIGHT if value["part_ids"] == list(part_ids) and value.get("md5") in (None, DIGEST) else WRONG


def form_grade(_: Any, __: Sequence[str]) -> int:
    """Grade a form: how its fields are written is judged where forms are tested."""
    return UNSURE


DIGEST = md5(CONTENT.encode(), usedforsecurity=False).hexdigest()
CREATE_FILE = FormBody(
    {"purpose": "assistants", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600", "file": CONTENT}
)
CREATE_UPLOAD = {
    "bytes": len(CONTENT),
    "filename": "herons.txt",
    "mime_type": "text/plain",
    "purpose": "batch",
    "expires_after": {"anchor": "created_at", "seconds": 3_600},
}
ADD_PART = FormBody(data=CONTENT)
COMPLETE = {"part_ids": ["@call0@"], "md5": DIGEST}
GRADES: Mapping[tuple[str, str], tuple[Any, Any]] = {
    ("POST", FILES): (CREATE_FILE, form_grade),
    ("POST", UPLOADS): (CREATE_UPLOAD, lambda value, _: CREATED(value)),
    ("POST", f"{UPLOADS}/{{upload_id}}/parts"): (ADD_PART, form_grade),
    ("POST", f"{UPLOADS}/{{upload_id}}/complete"): (COMPLETE, completion_grade),
}
READ = (
    ("GET", f"{FILES}/{{file_id}}"),
    ("DELETE", f"{FILES}/{{file_id}}"),
    ("GET", f"{FILES}/{{file_id}}/content"),
    ("POST", f"{UPLOADS}/{{upload_id}}/cancel"),
)


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Grade the query of the list: one value each, a possible position."""
    names = [name for name in query if name in ("after", "limit", "order", "purpose")]
    if any(len(query[name]) > 1 for name in names):
        return WRONG
    given = {name: query[name][0] for name in names}
    limit = given.get("limit") or "1"
    is_right = (
        re.fullmatch(r"(file-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?", given.get("after", ""))
        and re.fullmatch(r"[0-9]{1,5}", limit)
        and 0 < int(limit) <= 10_000
        and given.get("order", "") in ("", "asc", "desc")
    )
    return RIGHT if is_right else WRONG
