"""The figures that `make check` prints of the template: its size on AWS, and whether its rights are those in use."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from tests.integration.rights.recorded import compared, load
from tests.integration.rights.stage import full_template
from tests.support.aws.cloudformation import Template

# bars of ours, and the quotas of AWS; resources of CloudFormation, path nodes of an API, bytes of a function's policy
MOST_RESOURCES, RESOURCES_OF_A_STACK = 150, 500
MOST_NODES, NODES_OF_AN_API = 240, 300
MOST_POLICY_BYTES, BYTES_OF_A_POLICY = 10_240, 20_480


def main() -> int:
    """Print the figures; return 1 if one is over its bar, or if a function's rights are not those that it uses."""
    made = full_template(StreamingMode="adapter")
    sizes = Sizes.of(made)
    print(f"expanded resources: {sizes.resources}, at most {MOST_RESOURCES} ({RESOURCES_OF_A_STACK} on AWS)")
    print(f"path nodes of the API: {sizes.nodes}, at most {MOST_NODES} ({NODES_OF_AN_API} on AWS)")
    print(
        f"largest policy of a function: {sizes.largest_policy}, {sizes.policy_bytes} bytes, "
        f"at most {MOST_POLICY_BYTES} ({BYTES_OF_A_POLICY} on AWS)"
    )
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
    return int(not sizes.fit(MOST_RESOURCES) or any(missing or surplus for missing, surplus in found.values()))


class Sizes(NamedTuple):
    """The sizes of a template that AWS limits, once it is expanded.

    Attributes:
        largest_policy: the function with the most permissions.
        policy_bytes: of that function.
    """

    resources: int
    nodes: int
    largest_policy: str
    policy_bytes: int

    @classmethod
    def of(cls, made: Template) -> Sizes:
        name, policy_bytes = max(resource_policies(made).items(), key=lambda item: item[1])
        return cls(len(made.expanded["Resources"]), len(path_nodes(made)), name, policy_bytes)

    def fit(self, most_resources: int, most_nodes: int = MOST_NODES) -> bool:
        """Return whether all are within our bars."""
        within = (self.nodes <= most_nodes, self.policy_bytes <= MOST_POLICY_BYTES)
        return self.resources <= most_resources and all(within)


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
