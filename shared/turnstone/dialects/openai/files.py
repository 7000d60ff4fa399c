"""Files and uploads on OpenAI's wire.

Source: the types of `openai` 3.54.0, and of `llama-stack-client` 0.2.12 to 0.3.5. A file is processed as soon as it is
stored, so its `status` never changes.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.dialects.openai.pages import (
    HAS_MORE,
    OF_LIST,
    EndIds,
    PageRule,
    Query,
    only_value,
    refuse_cursor,
    unused_id_near,
)
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.files.stored_files import (
    FILE_ID,
    MOST_IN_A_LIST,
    MOST_NAME_CHARACTERS,
    MOST_PARTS,
    MOST_TYPE_CHARACTERS,
    MOST_UPLOAD_BYTES,
    NAME_PATTERN,
    OF_UNKNOWN_TYPE,
    TYPE_PATTERN,
    FilesQuery,
    FileUpload,
    NewUpload,
    StoredFile,
    name_problem,
    type_problem,
)
from turnstone.domain.values.frozen import Frozen, Many

EXAMPLE_ID = "file-01990000-0000-7000-8000-000000000000"
SHORTEST_S, LONGEST_S = 3_600, 2_592_000
ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+( *;[\x20-\x7e]*)?", re.ASCII)
LIST_HEAD = before_entries({"object": "list"}, "data")
PAGES = PageRule("file", FILE_ID, EXAMPLE_ID, "desc", MOST_IN_A_LIST, MOST_IN_A_LIST, is_cut=False)
LIST_QUERY = {
    **PAGES.query,
    "purpose": {"description": "Only files of this purpose.", "schema": {"type": "string"}},
}


def _whole(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise PydanticCustomError("int_type", "Input should be a whole number")
    return value


def _whole_in_text(value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
        raise PydanticCustomError("int_type", "Input should be a whole number")
    return int(value)


def _left_out(schema: dict[str, Any]) -> None:
    """Remove the default from the schema of a form's field: no text stands for null."""
    schema.pop("default", None)


Purpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
Lifetime = Field(ge=SHORTEST_S, le=LONGEST_S)
LIFETIME_SCHEMA = {"type": "integer", "minimum": SHORTEST_S, "maximum": LONGEST_S}


class ExpiresAfter(Frozen):
    """When a file expires."""

    model_config = ConfigDict(extra="forbid")

    anchor: Literal["created_at"]
    seconds: Annotated[int, Lifetime, BeforeValidator(_whole)]


class CreateFile(Frozen):
    """A file with its purpose: a form, whose fields are texts."""

    model_config = ConfigDict(extra="forbid")

    purpose: Purpose
    anchor: Annotated[Literal["created_at"] | None, WithJsonSchema({"const": "created_at"})] = Field(
        default=None, alias=ANCHOR, json_schema_extra=_left_out
    )
    seconds: Annotated[int | None, Lifetime, BeforeValidator(_whole_in_text), WithJsonSchema(LIFETIME_SCHEMA)] = Field(
        default=None, alias=SECONDS, json_schema_extra=_left_out
    )

    @model_validator(mode="after")
    def both_or_none(self) -> Self:
        if (self.anchor is None) != (self.seconds is None):
            raise ValueError(f"{ANCHOR} and {SECONDS} go together: send both, or none")
        return self


class AddUploadPart(Frozen):
    """A part of an upload: a form."""

    model_config = ConfigDict(extra="forbid")


class CreateUpload(StrictRequest):
    """An upload, whose parts follow."""

    bytes: Annotated[int, Field(ge=0, le=MOST_UPLOAD_BYTES), BeforeValidator(_whole)]
    filename: Annotated[str, Field(min_length=1, max_length=MOST_NAME_CHARACTERS, pattern=f"^{NAME_PATTERN}$")]
    mime_type: Annotated[str, Field(max_length=MOST_TYPE_CHARACTERS, pattern=f"^({TYPE_PATTERN})?$")]
    purpose: Purpose
    expires_after: ExpiresAfter | None = None

    def to_upload(self) -> NewUpload:
        expires_after_s = self.expires_after.seconds if self.expires_after else None
        return NewUpload(self.filename, self.mime_type or OF_UNKNOWN_TYPE, self.purpose, self.bytes, expires_after_s)


class CompleteUpload(StrictRequest):
    """The parts of an upload, in the order of the file."""

    part_ids: Annotated[Many[str], Field(max_length=MOST_PARTS)]
    md5: Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")] | None = None


class FileObject(Frozen):
    """A file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"
    status_details: None = None

    @classmethod
    def of(cls, file: StoredFile) -> Self:
        return cls(
            id=file.file_id,
            bytes=file.size_bytes,
            created_at=int(file.created_at.timestamp()),
            expires_at=None if file.expires_at is None else int(file.expires_at.timestamp()),
            filename=file.filename,
            purpose=file.purpose,
        )


class FileList(Frozen):
    """A part of the list of files."""

    object: OF_LIST = "list"
    data: tuple[FileObject, ...]
    first_id: str
    last_id: str
    has_more: HAS_MORE


class FileDeleted(Frozen):
    """The file is gone."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


class Upload(Frozen):
    """A file that arrives in parts."""

    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: Literal["pending", "completed", "cancelled"]
    file: FileObject | None

    @classmethod
    def of(cls, upload: FileUpload) -> Self:
        return cls(
            id=upload.upload_id,
            bytes=upload.size_bytes,
            created_at=int(upload.created_at.timestamp()),
            expires_at=int(upload.ends_at.timestamp()),
            filename=upload.filename,
            purpose=upload.purpose,
            status=upload.status,
            file=None if upload.file is None else FileObject.of(upload.file),
        )


class UploadPart(Frozen):
    """A part of an upload."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str


def name_in(filename: str | None) -> str:
    """Return the name of a form's file. Raises InvalidRequest."""
    if filename is None or name_problem(filename) is not None:
        raise InvalidRequest(f"file: {name_problem(filename)}", ("file",))
    return filename


def type_in(media_type: str) -> str:
    """Return the media type of a form's file. Raises InvalidRequest."""
    if media_type and (problem := type_problem(media_type)) is not None:
        raise InvalidRequest(f"file: its Content-Type {problem}", ("file",))
    return media_type or OF_UNKNOWN_TYPE


def sent_as(media_type: str) -> str:
    """Return the header `Content-Type` of a file: its media type if it is one."""
    return media_type if MEDIA_TYPE.fullmatch(media_type) else OF_UNKNOWN_TYPE


def files_in_query(query: Query) -> FilesQuery:
    """Return the requested part of the list. Raises InvalidRequest."""
    after = only_value(query, "after")
    if after is not None and not re.fullmatch(FILE_ID, after):
        raise refuse_cursor()
    return FilesQuery(
        limit=PAGES.limit(query),
        after=after,
        purpose=only_value(query, "purpose"),
        is_newest_first=PAGES.is_newest_first(query),
    )


def listed_files(files: Iterator[StoredFile]) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the JSON of each file."""
    for file in files:
        yield file.file_id, FileObject.of(file).model_dump_json().encode()


def list_tail(ids: EndIds, cursor: str | None, query: FilesQuery, has_more: bool) -> bytes:
    """Return the JSON of a list after the files; the cursor continues an empty page."""
    nearby = unused_id_near(cursor, "file-", is_newest_first=query.is_newest_first) if cursor else ""
    return after_entries({"first_id": ids.first, "last_id": ids.last or nearby, "has_more": has_more})
