"""What is asked of somebody elsewhere, and what came of it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turnstone.domain.values.cancellation import StopSignal

MAX_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 20.0
MAX_REDIRECTS = 3
# Python has codecs that texts of the web are never in, some of them slow enough to be a trap
OF_THE_WEB = re.compile(
    r"utf-?8|utf-16(le|be)?|us-ascii|iso-8859-[0-9]{1,2}|windows-[0-9]{3,4}|koi8-[ru]|shift_jis|euc-(jp|kr)"
    r"|iso-2022-jp|gbk|gb2312|gb18030|big5"
)
MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,80}")
CHARSET = re.compile(r"(?i);\s*charset\s*=\s*\"?([a-z0-9_.:-]{1,40})")


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A question to a URL that a stranger may have had a hand in.

    Attributes:
        headers: sent to the URL's own origin only, not to where it redirects.
        params: come into the query.
        timeout_s: how long all of it may take: looking up the name, redirects and the last byte included.
        max_bytes: how long the answer may be, as it is before it is compressed.
        accepts: the media types an answer may have, such as `text/*`, unless it tells of an error; None for any.
        stop: given when nobody wants the answer any more.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Mapping[str, str | Sequence[str]] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S
    max_bytes: int = MAX_BYTES
    accepts: tuple[str, ...] | None = None
    max_redirects: int = MAX_REDIRECTS
    stop: StopSignal | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer of whatever status, whole.

    Attributes:
        media_type: in lower case and without parameters, empty if none was told.
        charset: in lower case, a name that `decode` takes; None if none was told that texts of the web are in.
        url: where it is from after all redirects.
    """

    status: int
    media_type: str
    charset: str | None
    body: bytes = field(repr=False)
    url: str = field(repr=False)

    @property
    def text(self) -> str:
        """The body as text; what can't be read is marked as such."""
        return self.body.decode(self.charset or "utf-8", "replace")


def media_type_of(content_type: str | None) -> str:
    """Return the media type that a `Content-Type` header tells, empty if it tells none."""
    told = (content_type or "").partition(";")[0].strip().lower()
    return told if MEDIA_TYPE.fullmatch(told) else ""


def charset_of(content_type: str | None) -> str | None:
    """Return the charset that a `Content-Type` header tells, None if it is none that a text may be read with."""
    found = CHARSET.search(content_type or "")
    charset = found[1].lower() if found else ""
    try:
        codecs.lookup(charset)
    except LookupError:
        return None
    return charset if OF_THE_WEB.fullmatch(charset) else None


def is_accepted(media_type: str, accepts: Sequence[str] | None) -> bool:
    """Tell whether the type is one of those, which may end in `/*`."""
    kind = media_type.partition("/")[0]
    return accepts is None or bool({media_type, f"{kind}/*", "*/*"} & set(accepts))
