"""`turnstone turns`: queued, running and waiting turns, in a data folder or in the table of TURNSTONE_TABLE."""

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from .options import FAILED, Commands, add_json, add_tenant
from .output import print_json, print_line

if TYPE_CHECKING:
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.turns.open_turns import InspectedTurn
    from turnstone.domain.turns.turns import TurnState

COLUMNS = "id, status, last change, agent, session"
LIST = f"List queued, running and waiting turns, a line for each: {COLUMNS}. Exit status 1 if a turn can't be read."
CANCEL = """Cancel open turns of a tenant: named ones, or all. A running server notices. Exit status 1 if a turn can't
be cancelled; the others are cancelled all the same."""
TURNS = "an array; of each turn turn_id, session_id, agent_id, tenant, and status and last_change_at, or error"
BOTH = "name turns or --all, not both"
UNCLEAR = "name the turns to cancel, or --all; `turnstone turns list` shows which are open"


def add_turns(commands: Commands) -> None:
    """Add the command."""
    turns = commands.add_parser("turns", help="list and cancel open turns", description="Running and waiting turns.")
    verbs = turns.add_subparsers(required=True, metavar="VERB", title="verbs")

    listed = verbs.add_parser("list", help=f"list open turns: {COLUMNS}", description=LIST)
    tenants = listed.add_mutually_exclusive_group()
    tenants.add_argument("--all", action="store_true", help="of all tenants")
    add_tenant(tenants)
    listed.set_defaults(run=_list)

    cancel = verbs.add_parser("cancel", help="cancel open turns; finished steps stay", description=CANCEL)
    cancel.add_argument("turn_ids", nargs="*", metavar="TURN_ID", help="id of the turn in the list")
    cancel.add_argument("--all", action="store_true", help="all open turns of the tenant")
    add_tenant(cancel)
    cancel.set_defaults(run=partial(_cancel, cancel))

    for verb in verbs.choices.values():
        add_json(verb, TURNS)


def _list(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.operator import operated_turns

    with operated_turns() as turns:
        _print(turns.list(None if options.all else options.tenant), "can't be read", as_json=options.json)


def _cancel(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.operator import operated_turns

    if options.all == bool(options.turn_ids):
        parser.error(BOTH if options.all else UNCLEAR)
    with operated_turns() as turns:
        turn_ids = None if options.all else options.turn_ids
        _print(turns.cancel(options.tenant, turn_ids), "can't be cancelled", as_json=options.json)


def _print(found: "Iterable[InspectedTurn]", failed: str, *, as_json: bool) -> None:
    """Print a line, or an object, for each turn; end with status 1 if one of them failed."""
    from turnstone.domain.turns.turns import TurnState

    rows: list[dict[str, Any]] = []
    has_failed = False
    for ref, result in found:
        if isinstance(result, TurnState):
            rows.append(
                _row(ref, status=result.status.value, last_change_at=f"{result.last_moment:%Y-%m-%dT%H:%M:%SZ}")
            )
            if not as_json:
                print_line(_line(ref, result))
        else:
            has_failed = True
            rows.append(_row(ref, error=result.reason))
            print(f"turnstone: {ref.turn_id} {failed}: {result.reason}  {_names(ref)}", file=sys.stderr)
    if as_json:
        print_json(rows)
    if has_failed:
        sys.exit(FAILED)


def _row(ref: "TurnRef", **fields: str) -> dict[str, Any]:
    ids = {"turn_id": ref.turn_id, "session_id": ref.session_id, "agent_id": ref.agent_id, "tenant": ref.tenant}
    return {**ids, **fields}


def _line(ref: "TurnRef", state: "TurnState") -> str:
    return f"{ref.turn_id}  {state.status.value}  since {state.last_moment:%Y-%m-%d %H:%M:%S}Z  {_names(ref)}"


def _names(ref: "TurnRef") -> str:
    return f"agent={ref.agent_id}  session={ref.session_id}  tenant={ref.tenant}"
