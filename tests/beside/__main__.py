"""Runs clients against Turnstone and against Llama Stack 0.2.12, and prints every difference that has no reason.

`python -m tests.beside --peer-python ... --peer-config ...`; ends with 1 if there is one. `--write` only writes the
page of the reference with the reasons.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.benchmarks.http_client import HOST
from tests.benchmarks.peer_server import models_of, peer
from tests.beside.model import answer_with_id, embeddings_with_dimensions
from tests.beside.reasons import REASONS, reference, unexplained
from tests.beside.recording import Exchange, Recorder, recorder
from tests.beside.shapes import Difference, differences, differences_of_answers
from tests.fakes.models.openai_answers import listed
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.tools.mcp_server import McpServers
from tests.support.clients.client_columns import COLUMNS, Column, outcomes
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ROOT, ServerProcess

PAGE = ROOT / "docs" / "reference" / "llama-stack-differences.md"
# the clients that the peer answers: it takes those of its own minor version, and has no routes of 0.3
CLIENTS = ("python-0.2.12", "python-0.2.23", "typescript-0.2.23", "openai", "openai-agents", "langchain-openai")
# the prefix of the peer's OpenAI routes
PREFIXES = {"OPENAI_PREFIXES": "/v1/openai/v1"}
# the client of which every method is called once, with whatever arguments
EVERY_METHOD = "0.2.12"
TIMEOUT_S = 400.0

Rows = Mapping[str, Sequence[Exchange]]


def main() -> None:
    arguments = _arguments()
    if arguments.write:
        PAGE.write_text(reference())
        return
    with _both(arguments.peer_python, arguments.peer_config) as (theirs, ours, mcp_urls):
        found = _found(arguments.client or CLIENTS, (theirs, ours), mcp_urls)
    without_reason = sorted(unexplained(found, REASONS))
    for one in sorted(found) if arguments.all else without_reason:
        subjects = "; ".join(reason.subject for reason in REASONS if reason.explains(one)) or "no reason"
        clients = ", ".join(sorted(found[one]))
        print(f"{subjects}: {one.route} | {one.what} | {one.theirs} | {one.ours} | {one.row} | {clients}")
    for reason in REASONS:
        if not any(reason.explains(one) for one in found):
            print(f"nothing shows any more: {reason.subject}", file=sys.stderr)
    print(f"{len(found)} differences, {len(without_reason)} without a reason")
    sys.exit(bool(without_reason))


def _found(
    clients: Sequence[str], parties: tuple[Recorder, Recorder], mcp_urls: tuple[str, str]
) -> Mapping[Difference, set[str]]:
    """Return the differences, and their clients."""
    found: dict[Difference, set[str]] = defaultdict(set)
    for column in COLUMNS:
        if column.name not in clients:
            continue
        print(f"running: {column.name}", file=sys.stderr, flush=True)
        their_rows, our_rows = (_rows(column, *party) for party in zip(parties, mcp_urls, strict=True))
        for row in their_rows.keys() & our_rows.keys():
            for difference in differences(their_rows[row], our_rows[row]):
                found[replace(difference, row=row)].add(column.name)
    for difference in _of_every_method(*parties):
        found[difference].add(EVERY_METHOD)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", type=Path, help="the Python that has the peer installed")
    parser.add_argument("--peer-config", type=Path, help="the peer's run configuration")
    parser.add_argument("--client", action="append", help="a client of the table, unless all; may be repeated")
    parser.add_argument("--all", action="store_true", help="print the differences that have a reason, too")
    parser.add_argument("--write", action="store_true", help="write the page of the reference, and run nothing")
    return parser.parse_args()


@contextmanager
def _both(python: Path, config: Path) -> Iterator[tuple[Recorder, Recorder, tuple[str, str]]]:
    """Serve both, each behind a recorder; the peer speaks to MCP servers over SSE."""
    models = listed(*models_of(config))
    with (
        tempfile.TemporaryDirectory(prefix="turnstone-beside-") as folder,
        ModelServer(answer_with_id, strict=False, listed=models, embed=embeddings_with_dimensions) as model,
        McpServers() as servers,
    ):
        mcp = servers.start()
        ours = ServerProcess(Path(folder), model_url=model.url, fetch_allow=f"{HOST}:{mcp.port}")
        with (
            peer(python, config, Path(folder) / "peer", model.port) as theirs,
            ours,
            recorder(f"http://{HOST}:{theirs.port}") as their_recorder,
            recorder(ours.url) as our_recorder,
        ):
            yield their_recorder, our_recorder, (mcp.url("/sse"), mcp.url())


def _rows(column: Column, party: Recorder, mcp_url: str) -> Rows:
    """Return the exchanges of each row."""
    found: dict[str, Sequence[Exchange]] = {}
    party.taken()
    arguments: Any = (party.url, "any", mcp_url)
    for outcome in outcomes(column, *arguments, timeout_s=TIMEOUT_S, environment=PREFIXES):
        found[outcome["row"]] = party.taken()
    return found


def _of_every_method(*parties: Recorder) -> Iterator[Difference]:
    """Yield how the statuses and fields of the answers to each method differ."""
    reports = [run_script(EVERY_METHOD, "every_method", party.url, "llama_stack_client") for party in parties]
    for name in sorted(reports[0].keys() & reports[1].keys()):
        pairs = [
            [_exchange(request, each[name]["body"]) for request in each[name]["requests"][-1:]] for each in reports
        ]
        for their, our in zip(*pairs, strict=False):
            yield from (replace(one, row=f"every_method {name}") for one in differences_of_answers(their, our))


def _exchange(request: Mapping[str, Any], body: str) -> Exchange:
    return Exchange(f"{request['method']} {request['path']}", request["status"], body.encode())


if __name__ == "__main__":
    main()
