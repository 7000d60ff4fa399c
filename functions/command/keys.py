"""`turnstone keys`: the API keys of callers, in a data folder or in the table of TURNSTONE_TABLE."""

import argparse
import shlex
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from .options import FAILED, LOCAL_TENANT, Commands, add_json, add_tenant, name_of
from .output import OutputFailed, discard_output, print_json, print_line

if TYPE_CHECKING:
    from turnstone.domain.access.api_keys import ApiKey

GROUPS = {"role": "roles", "team": "teams", "project": "projects", "namespace": "namespaces"}
SHOWN_ONCE = "This is the key; it is shown this once. Send it as: Authorization: Bearer KEY"
NOT_REQUIRED = "By the settings here a server requires no key: with TURNSTONE_AUTH=api_keys it does"
CREATE = """Create an API key of a principal in a tenant. The key alone goes to standard output, and is shown this once;
its description goes to standard error. A data folder that does not exist is created."""
LIST = "List the keys of a tenant, also expired and revoked ones, oldest first and without the keys themselves."
REVOKE = "Revoke a key, for good: requests with it are refused."
MAX_DAYS = 36_500
ONE_KEY = "an object with key_id, name, caller, created_at, expires_at and revoked_at"


def add_keys(commands: Commands) -> None:
    """Add the command."""
    keys = commands.add_parser("keys", help="create, list and revoke API keys", description="API keys of callers.")
    verbs = keys.add_subparsers(required=True, metavar="VERB", title="verbs")

    create = verbs.add_parser("create", help="create a key and print it, once", description=CREATE)
    named = "name of the key in lists, such as its user or its program"
    create.add_argument("name", type=name_of, metavar="NAME", help=named)
    create.add_argument("--principal", type=name_of, help="principal that the key identifies (default: the name)")
    for group, field in GROUPS.items():
        shown = f"{group} of the principal; repeatable"
        create.add_argument(
            f"--{group}", dest=field, type=name_of, action="append", default=[], metavar=group.upper(), help=shown
        )
    create.add_argument("--days", type=_days, metavar="NUMBER", help="days until the key expires (default: never)")
    add_json(create, f"{ONE_KEY}, and the key itself as `key`")
    create.set_defaults(run=partial(_create, create))

    listed = verbs.add_parser("list", help="list the keys of a tenant, without the keys themselves", description=LIST)
    add_json(listed, f"an array, oldest first; of each key {ONE_KEY}")
    listed.set_defaults(run=_list)

    revoke = verbs.add_parser("revoke", help="revoke a key", description=REVOKE)
    revoke.add_argument("key_id", type=name_of, metavar="KEY_ID", help="id of the key in the list")
    add_json(revoke, ONE_KEY)
    revoke.set_defaults(run=_revoke)

    for verb in verbs.choices.values():
        add_tenant(verb)


def _create(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Print a new key alone on standard output, and its description on standard error."""
    from turnstone.bootstrap.places.operator import keys_are_required, operated_keys, operated_location
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.errors import InvalidRequest

    groups = {field: tuple(getattr(options, field)) for field in GROUPS.values()}
    caller = Caller(tenant=options.tenant, principal=options.principal or options.name, **groups)
    valid_for = None if options.days is None else timedelta(days=options.days)
    with operated_keys(may_begin=True) as keys:  # the first key is created before the first start of a server
        try:
            key, token = keys.create(caller, options.name, valid_for)
        except InvalidRequest as problem:
            parser.error(str(problem))
    print(f"{_line(key, key.created_at)}\nkept in {operated_location()}\n{SHOWN_ONCE}", file=sys.stderr)
    if not keys_are_required():
        print(NOT_REQUIRED, file=sys.stderr)
    try:
        if options.json:
            print_json({"key": token, **key.model_dump(mode="json")}, at_once=True)
        else:
            print_line(token, at_once=True)
    except (OutputFailed, BrokenPipeError) as problem:
        discard_output()
        print(f"turnstone: the key was not printed: {_reason(problem)}; {_revocation(key)}", file=sys.stderr)
        sys.exit(FAILED)


def _reason(problem: OutputFailed | BrokenPipeError) -> str:
    return str(problem) if isinstance(problem, OutputFailed) else "nothing reads standard output"


def _revocation(key: "ApiKey") -> str:
    """Return the advice to revoke the key."""
    tenant = key.caller.tenant
    of_tenant = "" if tenant == LOCAL_TENANT else f" --tenant {shlex.quote(tenant)}"
    return f"revoke it: turnstone keys revoke {key.key_id}{of_tenant}"


def _list(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.operator import operated_keys

    now = datetime.now(UTC)
    with operated_keys() as keys:
        if options.json:
            print_json([key.model_dump(mode="json") for key in keys.list(options.tenant)])
            return
        for key in keys.list(options.tenant):
            print_line(_line(key, now))


def _revoke(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.operator import operated_keys

    with operated_keys() as keys:
        key = keys.revoke(options.tenant, options.key_id)
    if options.json:
        print_json(key.model_dump(mode="json"))
    else:
        print_line(_line(key, datetime.now(UTC)))


def _line(key: "ApiKey", now: datetime) -> str:
    state = "good"
    if key.expires_at is not None:
        state = f"{'good until' if now < key.expires_at else 'expired'} {key.expires_at:%Y-%m-%d %H:%M}Z"
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at:%Y-%m-%d %H:%M}Z"
    groups = {field: getattr(key.caller, field) for field in GROUPS.values()}
    shown = [f"{field}={','.join(names)}" for field, names in groups.items() if names]
    names = [f"name={key.name}", f"principal={key.caller.principal}", *shown]
    return "  ".join([key.key_id, state, f"tenant={key.caller.tenant}", *names])


def _days(text: str) -> float:
    with suppress(ValueError):
        if 0 < (days := float(text)) <= MAX_DAYS:
            return days
    raise argparse.ArgumentTypeError(f"must be a number above 0 and at most {MAX_DAYS}, not {text!r}")
