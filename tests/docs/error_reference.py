"""docs/reference/errors.md, written from the table of error codes.

Use: python -m tests.docs.error_reference
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.aws.cloudformation import template
from turnstone.dialects.openai.errors import DOCUMENTED
from turnstone.domain.errors import NotFound
from turnstone.domain.errors.code_table import CODES, NOT_FOUND, code_of
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.turns.failures import FAILURE_CODES
from turnstone.http.dialects import MODEL_IS_A_RESOURCE
from turnstone.http.errors import FAILURE_STATUS, REFUSED, STATUS

FILE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
CONTEXT_VARIABLE = re.compile(r"\$context\.[\w.]+")
INTRODUCTION = """# Errors

Every error has a text for people and a `code` for programs. The text may change in any version; the code stays.
A status may stand for several codes, and a code may come with several statuses, so compare the code.

| where | shape |
|---|---|
| Llama Stack's paths | `{"detail": "…", "code": "…"}` |
| a request with wrong fields there (400) | `{"error": {"detail": {"errors": [{"loc", "msg", "type"}], "code": "…"}}}` |
| a stream that can't continue | `data: {"error": {"message": "…", "code": "…"}}` |
| a turn read back without an answer | `"failure": {"status", "kind", "code", "message"}`, with its stream's code |
| OpenAI's paths, and the ends of their streams | `{"error": {"message", "type", "param", "code"}}` |
| paths of both, such as `/v1/models` | OpenAI's `error`, and next to it `detail` and `code` |

`loc` and `param` name the field as the request has it. The header `x-should-retry: false` marks an answer that a
repetition can't improve; `retry-after` is in seconds.

## Codes

One table in the program, `shared/turnstone/domain/errors/code_table.py`, has them all; this one is printed from it.

| code | status | when | what to do |
|---|---|---|---|
"""
OPENAI = """
## On OpenAI's paths

`error.code` is OpenAI's own where OpenAI documents an equivalent one, so that code written for OpenAI works:

| this API's code | `error.code` |
|---|---|
"""
LAST = """
All other codes are the same on both.
"""


def statuses_of(code: ErrorCode) -> list[str]:
    """Return every status that the code is sent with, by the server or by the gateway before it."""
    by_server = {str(status) for found, status in _sent() if found is code}
    return sorted(by_server | {status for status, body in gateway_answers() if body["code"] == code})


def page() -> str:
    """Return the page."""
    rows = (f"| `{code}` | {', '.join(statuses_of(code))} | {code.when} | {code.remedy} |\n" for code in ErrorCode)
    openai = (f"| `{code}` | `{documented}` |\n" for code, documented in DOCUMENTED.items())
    return INTRODUCTION + "".join(rows) + OPENAI + "".join(openai) + LAST


@cache
def gateway_answers() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the statuses and bodies that the template has API Gateway itself answer with."""
    answers = []
    for auth in ("api_keys", "AWS_IAM"):
        responses = template(Auth=auth).body["x-amazon-apigateway-gateway-responses"]
        for kind, response in responses.items():
            text = response["responseTemplates"]["application/json"]
            otherwise = "4xx" if kind == "DEFAULT_4XX" else "500"
            answers.append((response.get("statusCode", otherwise), json.loads(CONTEXT_VARIABLE.sub('"why"', text))))
    return tuple(answers)


def _sent() -> Iterator[tuple[ErrorCode, int]]:
    for kind, code in CODES.items():
        status = next((STATUS[each] for each in kind.__mro__ if each in STATUS), 500)
        yield code, status
        yield code, MODEL_IS_A_RESOURCE.get(kind, status)
    yield from ((code_of(NotFound(kind, "")), STATUS[NotFound]) for kind in NOT_FOUND)
    yield from ((code, FAILURE_STATUS[kind]) for kind, code in FAILURE_CODES.items())
    yield from REFUSED.items()


if __name__ == "__main__":
    FILE.write_text(page())
