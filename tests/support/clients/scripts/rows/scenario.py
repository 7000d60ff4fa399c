"""How one client runs the rows of the table in `test_client_table.py`: one process, a line of JSON for each row.

A row is a function whose name is the row's. Its result is compared with the table. Between two rows
the process waits for a line on standard input, so that the test can assign the model server's requests to each.

Arguments: base URL, key, the URL of an MCP server, and the names of the rows to run; without names, all.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import reduce
from typing import Any

BASE_URL, KEY, MCP_URL, *NAMES = sys.argv[1:]
MODEL = "stub-llm"
GUARD = "meta-llama/Llama-Guard-3-8B"
EMBEDDING = "all-MiniLM-L6-v2"
# prefixes of OpenAI's routes; another server may have them under the second only
PREFIXES = os.environ.get("OPENAI_PREFIXES", "/v1 /v1/openai/v1").split()

Row = Callable[[], Any]
rows: dict[str, Row] = {}


class Lacking(Exception):
    """The client has no such method."""


def row(function: Row) -> Row:
    """Add a function to the rows of this client."""
    rows[function.__name__] = function
    return function


def method_of(client: Any, name: str) -> Any:
    """Return a method by its name in the client, such as `models.openai.list`. Raises Lacking if there is none."""
    try:
        return reduce(getattr, name.split("."), client)
    except AttributeError:
        raise Lacking(name) from None


def raised_by(call: Row) -> list[Any]:
    """Return the class, status and message of what a call raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - an error of any class is a fact of the row
        return [type(error).__name__, getattr(error, "status_code", None), str(error)]
    return [None, None, "nothing was raised"]


def run() -> None:
    for name in NAMES or rows:
        print(json.dumps({"row": name, **outcome_of(rows[name])}, default=str), flush=True)
        sys.stdin.readline()


def outcome_of(act: Row) -> dict[str, Any]:
    try:
        return {"facts": act()}
    except Lacking as lacking:
        return {"lacks": str(lacking)}
    except Exception as error:  # noqa: BLE001 - the test reports it
        return {"raised": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
