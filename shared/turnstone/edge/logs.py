"""The format of the log, on one machine and in a Lambda: one line a record, as a JSON object or as text.

A record has fields for programs besides its message, `extra={"fields": {…}}`. Fields under `in_message` repeat the
message, and the text leaves them out. No content of a request can begin a line, or a field of JSON.
"""

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal, TextIO

LogFormat = Literal["text", "json"]
OURS = ("turnstone", "functions")
MOST_CHARACTERS = 300
MOST_OF_EXCEPTION = 20_000
_PLAIN = re.compile(r"[\w.:/@+,~{}-]+", re.ASCII)
_CREDENTIALS = re.compile(r"(?<=://)[^\s/?#]*@")


class JsonLines(logging.Formatter):
    """Format a record as one JSON object in ASCII, which no character of a field can break."""

    def __init__(self, process_id: int | None = None) -> None:
        super().__init__()
        self._always = {} if process_id is None else {"process": process_id}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": _utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _fit(record.getMessage(), 10 * MOST_CHARACTERS),
            **self._always,
        }
        extra = record.__dict__
        for fields in (extra.get("in_message", {}), extra.get("fields", {})):
            line.update((name, _fit(value)) for name, value in fields.items() if value is not None)
        if trace := _trace(self, record):
            line["exception"] = trace
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Format a record for people: time, level, message, fields, and an indented traceback."""

    def __init__(self, process_id: int | None = None) -> None:
        super().__init__()
        self._process = "" if process_id is None else f"[{process_id}] "

    def format(self, record: logging.LogRecord) -> str:
        message = _printable(str(_fit(record.getMessage(), 10 * MOST_CHARACTERS)))
        fields: Mapping[str, Any] = record.__dict__.get("fields", {})
        shown = "".join(f" {name}={_shown(value)}" for name, value in fields.items() if value is not None)
        line = f"{_utc(record.created)} {record.levelname} {self._process}{message}{shown}"
        if trace := _trace(self, record):
            line += "".join(f"\n    {_printable(part)}" for part in trace.splitlines())
        return line


class Lines(logging.StreamHandler[TextIO]):
    """A handler that writes to the current standard error."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """Ignore the stream: `sys.stderr` is read for each record."""


def begin_logging(level: str = "INFO", form: LogFormat = "json", process_id: int | None = None) -> None:
    """Configure the log of this process; libraries log from WARNING on, because below they log contents.

    Args:
        level: of our own lines, DEBUG to ERROR, and of all lines if it is above WARNING.
        form: `json` or `text`.
        process_id: added to every line, for several processes with one log.
    """
    handler = Lines()
    handler.setLevel(level)
    handler.setFormatter((JsonLines if form == "json" else TextLines)(process_id))
    root = logging.getLogger()
    # the runtime of Lambda adds a handler of its own, which would write each line twice
    root.handlers[:] = [kept for kept in root.handlers if not _is_replaced(kept)]
    root.addHandler(handler)
    for name in OURS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)
    threading.excepthook = _log_end_of_thread


def _is_replaced(handler: logging.Handler) -> bool:
    return isinstance(handler, Lines) or type(handler).__module__.startswith("awslambdaric")


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    error = (ended.exc_type, ended.exc_value or ended.exc_type(), ended.exc_traceback)
    logging.getLogger("turnstone").error("a thread ended by an error", exc_info=error)


def _utc(moment_s: float) -> str:
    """Return the time in ISO 8601, to the millisecond."""
    whole_s = int(moment_s)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole_s))}.{int((moment_s - whole_s) * 1_000):03d}Z"


def _fit(value: Any, most: int = MOST_CHARACTERS) -> Any:
    """Return the value; a text loses credentials in URLs and is shortened to `most` characters."""
    if not isinstance(value, str):
        return value
    text = _CREDENTIALS.sub("", value[: most + 1]) if "://" in value else value
    return text if len(text) <= most else text[:most] + "…"


def _shown(value: Any) -> str:
    text = str(_fit(value))
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _printable(text: str) -> str:
    """Return the text with escapes for characters that a terminal obeys or hides, line ends included."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return str(_fit(formatter.formatException(record.exc_info), MOST_OF_EXCEPTION))
