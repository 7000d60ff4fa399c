"""The command `turnstone`: API keys, turns that have not ended, and backups of a server, for its operator; and a chat.

What operates works on the data directory or, where TURNSTONE_TABLE is set, on that table, beside running servers. The
chat is a client of a server.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from functions.command.backup import add_backup
from functions.command.chat.command import add_chat
from turnstone.bootstrap.places.operator import operated_keys, operated_place, operated_turns
from turnstone.domain.access.api_keys import ApiKey
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import InvalidRequest, NotFound, StoreUnavailable
from turnstone.domain.turns.operating import Looked
from turnstone.domain.turns.turns import TurnState
from turnstone.settings.config import InvalidSettings

GROUPS = {"role": "roles", "team": "teams", "project": "projects", "namespace": "namespaces"}
SHOWN_ONCE = "This is the key; it is shown this once. Send it as: Authorization: Bearer KEY"
LONGEST_DAYS = 36_500
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the arguments say; end with an error and one line that names it if that can't be done."""
    asked = _parser().parse_args(arguments)
    try:
        asked.run(asked)
    except (InvalidSettings, InvalidRequest, NotFound, StoreUnavailable) as problem:
        sys.exit(f"turnstone: {problem}")


def create_key(asked: argparse.Namespace) -> None:
    """Print a new key alone on standard output, and what there is to know about it beside."""
    groups = {field: tuple(getattr(asked, field)) for field in GROUPS.values()}
    caller = Caller(tenant=asked.tenant, principal=asked.principal or asked.name, **groups)
    valid_for = None if asked.days is None else timedelta(days=asked.days)
    with operated_keys(may_begin=True) as keys:  # a server's first key is made before its first start
        key, token = keys.create(caller, asked.name, valid_for)
    print(f"{_described(key, key.created_at)}\nkept in {operated_place()}\n{SHOWN_ONCE}", file=sys.stderr)
    print(token)


def list_keys(asked: argparse.Namespace) -> None:
    """Print a line for every key of a tenant, the oldest first."""
    now = datetime.now(UTC)
    with operated_keys() as keys:
        for key in keys.list(asked.tenant):
            print(_described(key, now))


def revoke_key(asked: argparse.Namespace) -> None:
    """Take a key back."""
    with operated_keys() as keys:
        print(_described(keys.revoke(asked.tenant, asked.key_id), datetime.now(UTC)))


def list_turns(asked: argparse.Namespace) -> None:
    """Print a line for every turn that has not ended; end with an error if one of them can't be read."""
    with operated_turns() as turns:
        _tell(turns.list(None if asked.all else asked.tenant), "can't be read")


def cancel_turns(asked: argparse.Namespace) -> None:
    """Cancel the turns that are named, or all of the tenant; end with an error if one of them can't be cancelled."""
    if asked.all == bool(asked.turn_ids):
        sys.exit("turnstone: name the turns to cancel, or --all; `turnstone turns list` shows which are open")
    with operated_turns() as turns:
        _tell(turns.cancel(asked.tenant, None if asked.all else asked.turn_ids), "can't be cancelled")


def _tell(looked: Iterable[Looked], failed: str) -> None:
    """Print a line for each turn, on standard error for those in trouble, and end with an error if there was one."""
    is_whole = True
    for ref, found in looked:
        names = f"agent={ref.agent_id}  session={ref.session_id}  tenant={ref.tenant}"
        if isinstance(found, TurnState):
            print(f"{ref.turn_id}  {found.status.value}  since {found.last_moment:%Y-%m-%d %H:%M:%S}Z  {names}")
        else:
            print(f"turnstone: {ref.turn_id} {failed}: {found.reason}  {names}", file=sys.stderr)
            is_whole = False
    if not is_whole:
        sys.exit(1)


def _described(key: ApiKey, now: datetime) -> str:
    state = "good"
    if key.expires_at is not None:
        state = f"{'good until' if now < key.expires_at else 'expired'} {key.expires_at:%Y-%m-%d %H:%M}Z"
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at:%Y-%m-%d %H:%M}Z"
    groups = {field: getattr(key.caller, field) for field in GROUPS.values()}
    told = [f"{field}={','.join(names)}" for field, names in groups.items() if names]
    names = [f"name={key.name}", f"principal={key.caller.principal}", *told]
    return "  ".join([key.key_id, state, f"tenant={key.caller.tenant}", *names])


def _days(text: str) -> float:
    with suppress(ValueError):
        if 0 < (days := float(text)) <= LONGEST_DAYS:
            return days
    raise argparse.ArgumentTypeError(f"must be a number above 0 and at most {LONGEST_DAYS}, not {text!r}")


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="turnstone", description="Talk with an agent, or operate a Turnstone server.")
    subjects = parser.add_subparsers(required=True, metavar="SUBJECT")
    _add_keys(subjects.add_parser("keys", help="API keys of callers").add_subparsers(required=True, metavar="VERB"))
    turns = subjects.add_parser("turns", help="turns that have not ended")
    _add_turns(turns.add_subparsers(required=True, metavar="VERB"))
    add_backup(subjects)
    add_chat(subjects.add_parser("chat", help="talk with an agent of a running server"))
    return parser


def _add_keys(verbs: Verbs) -> None:
    create = verbs.add_parser("create", help="make a key and print it, this once")
    create.add_argument("name", help="what the list shows it as, such as who or what uses it")
    create.add_argument("--principal", type=_name, help="whom it names; the key's name unless told")
    for group, field in GROUPS.items():
        told = "may be given several times"
        create.add_argument(f"--{group}", dest=field, type=_name, action="append", default=[], help=told)
    create.add_argument("--days", type=_days, help="how long it is good; without an end unless told")
    create.set_defaults(run=create_key)

    verbs.add_parser("list", help="show a tenant's keys, not the keys themselves").set_defaults(run=list_keys)

    revoke = verbs.add_parser("revoke", help="take a key back")
    revoke.add_argument("key_id", help="the id that the list shows")
    revoke.set_defaults(run=revoke_key)

    _add_tenant(verbs)


def _add_turns(verbs: Verbs) -> None:
    listed = verbs.add_parser("list", help="show them: id, status, since when, agent, session")
    listed.add_argument("--all", action="store_true", help="of all tenants")
    listed.set_defaults(run=list_turns)

    cancel = verbs.add_parser("cancel", help="end turns; what they have finished stays")
    cancel.add_argument("turn_ids", nargs="*", metavar="TURN_ID", help="the id that the list shows")
    cancel.add_argument("--all", action="store_true", help="every one of the tenant")
    cancel.set_defaults(run=cancel_turns)
    _add_tenant(verbs)


def _add_tenant(verbs: Verbs) -> None:
    for verb in verbs.choices.values():
        verb.add_argument(
            "--tenant", type=_name, default=LOCAL_CALLER.tenant, help="whose it is, %(default)r unless told"
        )


if __name__ == "__main__":
    main()
