"""Images that the tools of a response made, read again for its items."""

from base64 import b64encode
from collections.abc import Callable

from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.refs import SessionRef
from turnstone.store.files.attachments import AttachmentStore


def image_of(attachments: Callable[[], AttachmentStore], ref: SessionRef, address: str) -> str | None:
    """Return the base64 of the session's image at the address, None if it is gone. Raises StoreUnavailable."""
    try:
        file = attachments().find(ref, address.rpartition("/")[2]).file
    except (NotFound, ContentLost):
        return None
    return b64encode(file.body + b"".join(file.pieces or ())).decode()
