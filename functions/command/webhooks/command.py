"""`turnstone webhooks`: its arguments."""

import argparse
import sys

from turnstone.domain.webhooks.webhooks import EVENT_TYPES

from ..options import Commands, add_json, name_of

DESCRIPTION = "URLs that a running server sends events of turns and responses."
EPILOG = """TURNSTONE_URL and TURNSTONE_API_KEY are the defaults of --url and --api-key."""
ADD = f"""Add a webhook and print its secret, which no later command shows. The server signs each request with it.
Types of events: {", ".join(EVENT_TYPES)}."""
LIST = "List the webhooks of the tenant, without their secrets."
REMOVE = "Remove webhooks, which are sent nothing from then on. Exit status 1 if one does not exist."
DELIVERIES = "List the deliveries of a webhook, the newest first."
RESEND = "Send the event of a delivery again, at once, with the same id. Later tries follow as for a new delivery."
WEBHOOK = "webhook_id, url, event_types, description, status, disabled_reason, created_at"
DELIVERY = (
    "delivery_id, webhook_id, event_id, event_type, status, reason, tries, tries_left, next_try_at, created_at, payload"
)
MOST = 100


def add_webhooks(commands: Commands) -> None:
    """Add the command."""
    webhooks = commands.add_parser("webhooks", help="manage webhooks of a server", description=DESCRIPTION)
    verbs = webhooks.add_subparsers(required=True, metavar="VERB", title="verbs")

    adding = verbs.add_parser("add", help="add a webhook", description=ADD, epilog=EPILOG)
    adding.add_argument("target", type=name_of, metavar="URL", help="where events are posted")
    adding.add_argument(
        "--event",
        action="append",
        choices=EVENT_TYPES,
        metavar="TYPE",
        help="type of events to send, as often as needed (default: all types)",
    )
    adding.add_argument("--description", default="", metavar="TEXT", help="note for people")
    add_json(adding, f"an object with {WEBHOOK} and secret")

    listing = verbs.add_parser("list", help="list the webhooks", description=LIST, epilog=EPILOG)
    add_json(listing, f"an array; of each webhook {WEBHOOK}")

    removing = verbs.add_parser("remove", help="remove webhooks", description=REMOVE, epilog=EPILOG)
    removing.add_argument("ids", nargs="+", type=name_of, metavar="WEBHOOK_ID", help="id of a webhook")
    add_json(removing, "an array; of each webhook webhook_id and status: removed or missing")

    delivered = verbs.add_parser("deliveries", help="list deliveries", description=DELIVERIES, epilog=EPILOG)
    delivered.add_argument("webhook_id", type=name_of, metavar="WEBHOOK_ID", help="id of the webhook")
    delivered.add_argument("--limit", type=_count, default=20, metavar="N", help="deliveries at most (default: 20)")
    add_json(delivered, f"an array; of each delivery {DELIVERY}")

    resending = verbs.add_parser("resend", help="send an event again", description=RESEND, epilog=EPILOG)
    resending.add_argument("webhook_id", type=name_of, metavar="WEBHOOK_ID", help="id of the webhook")
    resending.add_argument("delivery_id", type=name_of, metavar="DELIVERY_ID", help="id of the delivery")
    add_json(resending, f"an object with {DELIVERY}")

    for name, parser in verbs.choices.items():
        parser.add_argument("--url", help="server (default: http://127.0.0.1:8321)")
        parser.add_argument("--api-key", metavar="KEY", help="API key for the server")
        parser.set_defaults(run=_run, verb=name)


def _run(options: argparse.Namespace) -> None:
    from .start import run_webhooks  # no other command needs its modules

    sys.exit(run_webhooks(options, options.parser.error))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MOST}")
    return int(text)
