"""The command `turnstone`, for whoever operates a server: API keys are made, listed and revoked here.

It works on the data directory or, where TURNSTONE_TABLE is set, on that table, beside running servers.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from turnstone.bootstrap.callers import operated_keys
from turnstone.config import InvalidSettings
from turnstone.domain.api_keys import ApiKey
from turnstone.domain.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import InvalidRequest, NotFound, StoreUnavailable

GROUPS = {"role": "roles", "team": "teams", "project": "projects", "namespace": "namespaces"}
SHOWN_ONCE = "This is the key; it is shown this once. Send it as: Authorization: Bearer KEY"
LONGEST_DAYS = 36_500


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
    with operated_keys() as keys:
        key, token = keys.create(caller, asked.name, valid_for)
    print(f"{_described(key, key.created_at)}\n{SHOWN_ONCE}", file=sys.stderr)
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
    days = float(text)
    if not 0 < days <= LONGEST_DAYS:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most {LONGEST_DAYS}")
    return days


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="turnstone", description="Operate a Turnstone server.")
    subjects = parser.add_subparsers(required=True, metavar="SUBJECT")
    verbs = subjects.add_parser("keys", help="API keys of callers").add_subparsers(required=True, metavar="VERB")

    create = verbs.add_parser("create", help="make a key and print it, this once")
    create.add_argument("name", help="what the list shows it as, such as who or what uses it")
    create.add_argument("--principal", help="whom it names; the key's name unless told")
    for group, field in GROUPS.items():
        create.add_argument(f"--{group}", dest=field, action="append", default=[], help="may be given several times")
    create.add_argument("--days", type=_days, help="how long it is good; without an end unless told")
    create.set_defaults(run=create_key)

    verbs.add_parser("list", help="show a tenant's keys, not the keys themselves").set_defaults(run=list_keys)

    revoke = verbs.add_parser("revoke", help="take a key back")
    revoke.add_argument("key_id", help="the id that the list shows")
    revoke.set_defaults(run=revoke_key)

    for verb in verbs.choices.values():
        verb.add_argument("--tenant", default=LOCAL_CALLER.tenant, help="whose it is, %(default)r unless told")
    return parser


if __name__ == "__main__":
    main()
