"""Request and response of a guarded fetch."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turnstone.domain.values.cancellation import StopSignal

MAX_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 20.0
MAX_REDIRECTS = 3
# Python has codecs that no web text uses, some of them slow enough for an attack
OF_THE_WEB = re.compile(
    r"utf-?8|utf-16(le|be)?|us-ascii|iso-8859-[0-9]{1,2}|windows-[0-9]{3,4}|koi8-[ru]|shift_jis|euc-(jp|kr)"
    r"|iso-2022-jp|gbk|gb2312|gb18030|big5"
)
MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,80}")
CHARSET = re.compile(r"(?i);\s*charset\s*=\s*\"?([a-z0-9_.:-]{1,40})")


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request to a URL that an untrusted party may have chosen.

    Attributes:
        headers: sent to the URL's own origin only, not to redirect targets.
        params: appended to the query.
        timeout_s: the limit for the whole fetch: name resolution, redirects and last byte included.
        max_bytes: the limit of the decoded body.
        accepts: the accepted media types of a successful answer, such as `text/*`; None for any.
        stop: cancels the fetch.
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
    """A complete response of any status.

    Attributes:
        media_type: in lower case and without parameters, empty without one.
        charset: in lower case, a name that `decode` accepts; None without a supported one.
        url: the final URL after all redirects.
    """

    status: int
    media_type: str
    charset: str | None
    body: bytes = field(repr=False)
    url: str = field(repr=False)

    @property
    def text(self) -> str:
        """The body as text, with replacement characters for undecodable bytes."""
        return self.body.decode(self.charset or "utf-8", "replace")


def media_type_of(content_type: str | None) -> str:
    """Return the media type of a `Content-Type` header, empty without one."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return essence if MEDIA_TYPE.fullmatch(essence) else ""


def charset_of(content_type: str | None) -> str | None:
    """Return the charset of a `Content-Type` header, None unless it is a supported text encoding."""
    found = CHARSET.search(content_type or "")
    charset = found[1].lower() if found else ""
    try:
        codecs.lookup(charset)
    except LookupError:
        return None
    return charset if OF_THE_WEB.fullmatch(charset) else None


def is_accepted(media_type: str, accepts: Sequence[str] | None) -> bool:
    """Return whether the media type matches one of the patterns, which may end in `/*`."""
    kind = media_type.partition("/")[0]
    return accepts is None or bool({media_type, f"{kind}/*", "*/*"} & set(accepts))
