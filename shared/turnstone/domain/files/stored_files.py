"""Files of callers, and the uploads that become files."""

import re
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.values.frozen import Frozen

UploadStatus = Literal["pending", "completed", "cancelled"]
FILE_ID = r"file-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
UPLOAD_ID = FILE_ID.replace("file-", "upload_", 1)
PART_ID = FILE_ID.replace("file-", "part_", 1)
OF_UNKNOWN_TYPE = "application/octet-stream"
MOST_NAME_CHARACTERS = 512
MOST_TYPE_CHARACTERS = 255
MOST_IN_A_LIST = 10_000
# Source: the limits of an upload and of its parts, and its lifetime, in OpenAI's API reference
MOST_UPLOAD_BYTES = 8 * 1024**3
MOST_PART_BYTES = 64 * 1024**2
MOST_PARTS = 10_000
UPLOAD_LIVES = timedelta(hours=1)
BATCH_LIVES_S = 30 * 86_400

NAME_PATTERN = r"[^\x00-\x1f\x7f-\x9f]+"
TYPE_PATTERN = r"[\x20-\x7e]+"


class StoredFile(Frozen):
    """A file of a caller, whole.

    Attributes:
        file_id: its id on the wire, which sorts by the time of creation: its position in the list.
        filename: as its creator sent it; not a path of this machine.
        media_type: as its creator sent it, `application/octet-stream` if it was not sent.
        expires_at: None for a file that is kept until it is deleted.
        content_id: the name of its content in the store.
    """

    file_id: str
    filename: str
    media_type: str
    purpose: str
    size_bytes: int
    created_at: datetime
    expires_at: datetime | None = None
    content_id: str
    stamp: Ownership = Ownership.model_construct()

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired, removed or not."""
        return self.expires_at is not None and now >= self.expires_at


class FileUpload(Frozen):
    """A file that arrives in parts.

    Attributes:
        upload_id: its id on the wire, and the name of its content in the store.
        size_bytes: of the whole file, as announced.
        ends_at: after which it takes no parts.
        file_lives_s: seconds until its file expires, None for a file that is kept.
        completed_with: hash of the request that completed it; empty before.
        file: the file that it became, None before.
    """

    upload_id: str
    filename: str
    media_type: str
    purpose: str
    size_bytes: int
    created_at: datetime
    ends_at: datetime
    file_lives_s: int | None = None
    status: UploadStatus = "pending"
    completed_with: str = ""
    file: StoredFile | None = None
    stamp: Ownership = Ownership.model_construct()

    def is_over(self, now: datetime) -> bool:
        """Return whether it expired before it was completed or cancelled."""
        return self.status == "pending" and now >= self.ends_at


class NewUpload(NamedTuple):
    """An announced file; `expires_after_s` counts from its completion, None for the time of its purpose."""

    filename: str
    media_type: str
    purpose: str
    size_bytes: int
    expires_after_s: int | None = None


class FilesQuery(Frozen):
    """The requested part of the list of files.

    Attributes:
        after: the id of the file to continue after.
        purpose: only files of this purpose, None for all.
    """

    limit: int = MOST_IN_A_LIST
    after: str | None = None
    purpose: str | None = None
    is_newest_first: bool = True


def lifetime_s(purpose: str, requested_s: int | None) -> int | None:
    """Return the seconds after which a file of the purpose expires, None if it is kept.

    Source: `expires_after` of OpenAI's API reference: files of batches expire after 30 days where nothing is requested.
    """
    return BATCH_LIVES_S if requested_s is None and purpose == "batch" else requested_s


def name_problem(filename: str | None) -> str | None:
    """Return why the text is not the name of a file, None if it is."""
    if not filename:
        return "must have a file name"
    if len(filename) > MOST_NAME_CHARACTERS:
        return f"its file name must have at most {MOST_NAME_CHARACTERS} characters"
    return None if re.fullmatch(NAME_PATTERN, filename) else "its file name must not contain control characters"


def type_problem(media_type: str) -> str | None:
    """Return why the text is not a media type, None if it is."""
    is_type = len(media_type) <= MOST_TYPE_CHARACTERS and re.fullmatch(TYPE_PATTERN, media_type)
    return None if is_type else f"must have 1 to {MOST_TYPE_CHARACTERS} visible characters of ASCII"
