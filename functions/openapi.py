"""Print the OpenAPI document of the whole API: `python -m functions.openapi`, with `--sigv4` as it stands on AWS."""

import json
import sys

from functions.local import ROUTES
from turnstone.http.openapi import SIGV4, openapi_document


def main() -> None:
    """Print the document as JSON."""
    schemes = SIGV4 if "--sigv4" in sys.argv[1:] else None
    print(json.dumps(openapi_document(ROUTES, schemes), indent=2))


if __name__ == "__main__":
    main()
