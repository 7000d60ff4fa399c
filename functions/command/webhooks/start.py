"""Start of a verb of `turnstone webhooks` by its options, and its exit status."""

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import NoReturn
from urllib.parse import quote

from turnstone.domain.webhooks.webhooks import EVENT_TYPES
from turnstone.settings.client_settings import load_client_settings
from turnstone.settings.config import InvalidSettings

from ..chat.screen import visible
from ..client import Client, CommandFailed
from ..options import FAILED
from ..output import print_json, print_line
from ..wire import Json

Misuse = Callable[[str], NoReturn]
WEBHOOKS = "/webhooks"


def run_webhooks(options: argparse.Namespace, misuse: Misuse) -> int:
    """Run the verb and return its exit status; `misuse` ends the process with a message about the usage."""
    verbs = {"add": _add, "list": _list, "remove": _remove, "deliveries": _deliveries, "resend": _resend}
    try:
        with closing(Client(load_client_settings(options.url, options.api_key))) as client:
            return verbs[options.verb](options, client)
    except InvalidSettings as problem:
        misuse(visible(str(problem)))
    except CommandFailed as problem:
        _report(str(problem))
        return FAILED


def _add(options: argparse.Namespace, client: Client) -> int:
    types = list(dict.fromkeys(options.event or EVENT_TYPES))
    body = {"url": options.target, "event_types": types, "description": options.description}
    made = client.post(WEBHOOKS, body)
    if options.json:
        print_json(made)
    else:
        _print([_line(made), f"secret: {made['secret']}"])
    return 0


def _list(options: argparse.Namespace, client: Client) -> int:
    webhooks: list[Json] = client.get(WEBHOOKS)[0]["data"]
    if options.json:
        print_json(webhooks)
    else:
        _print(map(_line, webhooks))
    return 0


def _remove(options: argparse.Namespace, client: Client) -> int:
    rows = []
    for webhook_id in dict.fromkeys(options.ids):
        is_removed = client.delete(_path(webhook_id))
        rows.append({"webhook_id": webhook_id, "status": "removed" if is_removed else "missing"})
        if not is_removed:
            _report(f"{webhook_id}: there is no such webhook; `turnstone webhooks list` prints the ids")
    removed = [row for row in rows if row["status"] == "removed"]
    if options.json:
        print_json(rows)
    else:
        _print(f"removed {row['webhook_id']}" for row in removed)
    return 0 if removed == rows else FAILED


def _deliveries(options: argparse.Namespace, client: Client) -> int:
    deliveries: list[Json] = client.get(f"{_path(options.webhook_id)}/deliveries?limit={options.limit}")[0]["data"]
    if options.json:
        print_json(deliveries)
    else:
        _print(map(_delivery_line, deliveries))
    return 0


def _resend(options: argparse.Namespace, client: Client) -> int:
    delivery_id = quote(options.delivery_id, safe="")
    delivery = client.post(f"{_path(options.webhook_id)}/deliveries/{delivery_id}/resend", {})
    if options.json:
        print_json(delivery)
    else:
        _print([_delivery_line(delivery)])
    return 0


def _path(webhook_id: str) -> str:
    return f"{WEBHOOKS}/{quote(webhook_id, safe='')}"


def _line(webhook: Json) -> str:
    status = webhook["status"] if webhook["disabled_reason"] is None else f"disabled ({webhook['disabled_reason']})"
    return f"{webhook['url']}  {status}  events={','.join(webhook['event_types'])}  id={webhook['webhook_id']}"


def _delivery_line(delivery: Json) -> str:
    """Return event, status, number of tries, the last answer or error, the time of the next try, and the id."""
    tries = delivery["tries"]
    last = f"  last={tries[-1]['status'] or tries[-1]['error']}" if tries else ""
    reason = f"  reason={delivery['reason']}" if delivery["reason"] else ""
    due = f"  next={delivery['next_try_at']}" if delivery["next_try_at"] else ""
    about = f"{delivery['event_type']}  {delivery['status']}  tries={len(tries)}"
    return f"{about}{last}{reason}{due}  id={delivery['delivery_id']}"


def _report(problem: str) -> None:
    print(f"turnstone: {visible(problem)}", file=sys.stderr)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(visible(line))
