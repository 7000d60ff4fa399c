"""Print the OpenAPI document of the whole API: `python -m functions.command.openapi`.

With `--bearer` as it stands where callers send keys or tokens, with `--sigv4` where they sign their requests.
"""

import json
import sys

from functions.local.routes import ROUTES
from turnstone.http.document.openapi import SCHEMES, openapi_document


def main() -> None:
    """Print the document as JSON."""
    asked = [schemes for name, schemes in SCHEMES.items() if f"--{name}" in sys.argv[1:]]
    print(json.dumps(openapi_document(ROUTES, asked[0] if asked else None), indent=2))


if __name__ == "__main__":
    main()
