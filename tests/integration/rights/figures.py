"""The figures that `make check` prints of the template: its size on AWS, and whether its rights are those in use."""

from __future__ import annotations

import json
import sys

from tests.integration.rights.recorded import compared, load
from tests.integration.rights.stage import full_template
from tests.support.aws.cloudformation import Template

MOST_RESOURCES = 500
MOST_NODES = 300
MOST_POLICY_BYTES = 20_480  # of the resource policy of one function


def main() -> int:
    """Print the figures; return 1 if a function's rights are not those that it uses."""
    made = full_template(StreamingMode="adapter")
    resources, nodes = len(made.expanded["Resources"]), len(path_nodes(made))
    name, size_bytes = max(resource_policies(made).items(), key=lambda item: item[1])
    print(f"expanded resources: {resources} of {MOST_RESOURCES}")
    print(f"path nodes of the API: {nodes} of {MOST_NODES}")
    print(f"largest policy of a function: {name}, {size_bytes} of {MOST_POLICY_BYTES} bytes")
    found = compared(made, load())
    print(f"rights missing/surplus, of {len(found)} functions, beside what was recorded:")
    print(
        "  " + ", ".join(f"{name} {len(missing)}/{len(surplus)}" for name, (missing, surplus) in sorted(found.items()))
    )
    for name, (missing, surplus) in sorted(found.items()):
        for call in missing:
            print(f"  {name} may not {call.action} on {call.resource}")
        for grant in surplus:
            print(f"  {name} never does {grant.action} on {', '.join(grant.resources)}")
    return int(any(missing or surplus for missing, surplus in found.values()))


def path_nodes(made: Template) -> set[str]:
    """Return the paths that API Gateway makes a resource of: each prefix of a path that ends at a slash."""
    nodes = set()
    for path in made.body["paths"]:
        parts = path.strip("/").split("/")
        nodes |= {"/".join(parts[:count]) for count in range(len(parts) + 1)}
    return nodes


def resource_policies(made: Template) -> dict[str, int]:
    """Return the bytes of each function's permissions together, roughly as Lambda writes them."""
    sizes: dict[str, int] = {}
    for name, permission in made.of_type("AWS::Lambda::Permission").items():
        function = permission["FunctionName"]["Ref"]
        statement = {
            "Sid": f"turnstone-{name}-ABCDEFGHIJKL",
            "Effect": "Allow",
            "Principal": {"Service": permission["Principal"]},
            "Action": permission["Action"],
            "Resource": f"arn:aws:lambda:eu-central-1:123456789012:function:turnstone-{function}-ABCDEFGHIJKL",
            "Condition": {"ArnLike": {"AWS:SourceArn": json.dumps(permission.get("SourceArn", ""))}},
        }
        sizes[function] = sizes.get(function, 0) + len(json.dumps(statement))
    return sizes


if __name__ == "__main__":
    sys.exit(main())
