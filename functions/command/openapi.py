"""`turnstone openapi`: the OpenAPI document of the whole API."""

import argparse

from .options import Commands
from .output import print_json

DESCRIPTION = "Print the API as an OpenAPI 3.1 document in JSON, generated from the routes."


def add_openapi(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("openapi", help="print the OpenAPI document of the API", description=DESCRIPTION)
    schemes = parser.add_mutually_exclusive_group()
    schemes.add_argument("--bearer", action="store_true", help="with the authentication by API keys or tokens")
    schemes.add_argument("--sigv4", action="store_true", help="with the authentication by signed requests, on AWS")
    parser.set_defaults(run=_print_document)


def _print_document(options: argparse.Namespace) -> None:
    from turnstone.http.document.openapi import SCHEMES, openapi_document

    from ..local.routes import ROUTES

    scheme = next((scheme for name, scheme in SCHEMES.items() if getattr(options, name)), None)
    print_json(openapi_document(ROUTES, scheme))
