"""Log lines: one a record, whatever its message, in both forms.

Covers: edge/logs
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.edge.logs import JsonLines, Lines, TextLines, begin_logging

HOSTILE = st.text(max_size=400) | st.sampled_from(
    ["a\nb", "\r\n", "\x85", "\u2028\u2029", "\x1b[2J", "\ud800", "\u202e"]
)
FIELDS = st.dictionaries(st.sampled_from(["turn_id", "status", "model"]), HOSTILE | st.integers() | st.none())
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
URL = "can't reach https://user:pa55@model.example/v1?x=1"


def record(
    message: str, *, fields: object = None, in_message: object = None, exc_info: bool = False
) -> logging.LogRecord:
    made = logging.LogRecord(
        "turnstone.some", logging.WARNING, "", 0, message, (), sys.exc_info() if exc_info else None
    )
    made.__dict__.update({"fields": fields or {}, "in_message": in_message or {}})
    return made


@given(message=HOSTILE, fields=FIELDS)
def test_a_line_of_json_is_one_line_with_all_fields(message: str, fields: dict[str, object]) -> None:
    line = JsonLines().format(record(message, fields=fields, in_message={"route": message}))
    assert len(line.splitlines()) == 1
    assert line.isascii()
    fields_read = json.loads(line)
    assert re.fullmatch(AT, fields_read["timestamp"])
    assert (fields_read["level"], fields_read["logger"]) == ("WARNING", "turnstone.some")
    for name, value in {"message": message, **fields}.items():
        assert fields_read.get(name) == (
            value if not isinstance(value, str) or len(value) <= 300 else fields_read[name]
        )


@given(message=HOSTILE, fields=FIELDS)
def test_a_line_of_text_is_one_line_of_printable_characters(message: str, fields: dict[str, object]) -> None:
    line = TextLines().format(record(message, fields=fields))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert re.match(rf"{AT} WARNING ", line)


def test_a_text_does_not_repeat_a_field_that_is_in_its_message() -> None:
    logged = record("GET /v1/x 200", fields={"turn_id": "t1", "odd": "a b=c", "none": None}, in_message={"status": 200})
    assert TextLines(7).format(logged)[25:] == 'WARNING [7] GET /v1/x 200 turn_id=t1 odd="a b=c"'
    assert json.loads(JsonLines(7).format(logged))["status"] == 200
    assert json.loads(JsonLines(7).format(logged))["process"] == 7


@pytest.mark.parametrize("form", [JsonLines, TextLines])
def test_credentials_of_a_url_are_left_out(form: type[logging.Formatter]) -> None:
    try:
        raise ValueError(URL)
    except ValueError:
        line = form().format(record(URL, fields={"where": URL}, exc_info=True))
    assert "pa55" not in line
    assert line.count("model.example/v1") == 3


def test_an_exception_is_one_field_or_lines_that_can_not_be_taken_for_others() -> None:
    try:
        raise ValueError("broken\n2026-01-01T00:00:00.000Z INFO forged\u2028\x1b[2J")
    except ValueError:
        logged = record("it broke", exc_info=True)
    (line,) = JsonLines().format(logged).splitlines()
    assert json.loads(line)["exception"].startswith("Traceback")
    first, *more = TextLines().format(logged).split("\n")
    assert first.endswith("it broke")
    assert all(each.startswith("    ") and each.isprintable() for each in more)


def test_long_values_are_shortened() -> None:
    fields_read = json.loads(JsonLines().format(record("x" * 10_000, fields={"model": "y" * 10_000})))
    assert (len(fields_read["message"]), len(fields_read["model"])) == (3_001, 301)


@pytest.fixture
def lines(in_a_lambda: None, capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    begin_logging("INFO", "json")
    begin_logging("INFO", "json")
    return capsys


def lines_in(lines: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    records = map(json.loads, lines.readouterr().err.splitlines())
    return [(line["logger"], line["message"].strip()) for line in records]


def test_every_library_writes_a_line_once_and_in_one_form(lines: pytest.CaptureFixture[str]) -> None:
    assert sum(isinstance(handler, Lines) for handler in logging.getLogger().handlers) == 1
    logging.getLogger("turnstone.some").info("ours")
    logging.getLogger("turnstone.some").debug("too much")
    logging.getLogger("functions.some").info("ours, too")
    logging.getLogger("uvicorn.error").warning("theirs")
    logging.getLogger("botocore.auth").info("a secret of theirs")
    assert lines_in(lines) == [("turnstone.some", "ours"), ("functions.some", "ours, too"), ("uvicorn.error", "theirs")]


def test_below_information_libraries_stay_silent(lines: pytest.CaptureFixture[str]) -> None:
    begin_logging("DEBUG", "json")
    logging.getLogger("turnstone.some").debug("ours")
    logging.getLogger("urllib3.connectionpool").debug("POST /v1/chat?key=secret")
    assert lines_in(lines) == [("turnstone.some", "ours")]


def test_warnings_and_ends_of_threads_are_lines(lines: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        begin_logging("INFO", "json")
        warnings.warn("mind\nthis", UserWarning, stacklevel=1)
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    (first, warning), (second, ended) = lines_in(lines)
    assert (first, second) == ("py.warnings", "turnstone")
    assert "mind\nthis" in warning
    assert ended == "a thread ended by an error"
