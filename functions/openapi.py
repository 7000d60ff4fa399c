"""Print the OpenAPI document of the whole API: `python -m functions.openapi`.

With `--bearer` as it stands where callers send keys or tokens, with `--sigv4` where they sign their requests.
"""

import json
import sys

from functions.local import ROUTES
from turnstone.http.openapi import BEARER, SIGV4, openapi_document

SCHEMES = {"--bearer": BEARER, "--sigv4": SIGV4}


def main() -> None:
    """Print the document as JSON."""
    asked = [SCHEMES[argument] for argument in sys.argv[1:] if argument in SCHEMES]
    print(json.dumps(openapi_document(ROUTES, asked[0] if asked else None), indent=2))


if __name__ == "__main__":
    main()
