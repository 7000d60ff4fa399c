"""Whether policies allow a call: effects, actions, resources and the conditions that the template uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tests.integration.rights.calls import (
    BUCKET,
    BUCKET_ARN,
    INGESTIONS,
    JOBS,
    QUEUES_ARN,
    TABLE,
    TABLE_ARN,
    Call,
    machine_arn,
)
from tests.support.aws.cloudformation import ACCOUNT, REGION, Template, listed

# the resources of the stack, by their names in the template
NAMES: dict[str, str] = {
    "Table": TABLE,
    "Table.Arn": TABLE_ARN,
    "Bucket": BUCKET,
    "Bucket.Arn": BUCKET_ARN,
    "Jobs": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{JOBS}",
    "Jobs.Arn": f"{QUEUES_ARN}:{JOBS}",
    "Ingestions": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{INGESTIONS}",
    "Ingestions.Arn": f"{QUEUES_ARN}:{INGESTIONS}",
    "RunTurn.Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:turnstone-RunTurn",
    "TurnSupervisor": machine_arn(),
}
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


class Grant(NamedTuple):
    """One action of a statement, with the resources that it names."""

    action: str
    resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, Any]]


class Rights:
    """The rights of a function or a state machine."""

    def __init__(self, made: Template, holder: str) -> None:
        statements = list(made.statements(holder))
        self.allowed = _grants(statements, "Allow")
        self.denied = _grants(statements, "Deny")

    def allow(self, call: Call) -> bool:
        """Return whether the call is allowed: a grant allows it, and none denies it."""
        if any(_covers(grant, call) for grant in self.denied):
            return False
        return any(_covers(grant, call) for grant in self.allowed)

    def missing(self, calls: Iterable[Call]) -> list[Call]:
        """Return the calls that may not be made."""
        return [call for call in calls if not self.allow(call)]

    def surplus(self, calls: Iterable[Call]) -> list[Grant]:
        """Return the grants that no call needs."""
        made = list(calls)
        return [grant for grant in self.allowed if not any(_covers(grant, call) for call in made)]


def physical(value: Any) -> str:
    """Return the value on AWS of a reference to a resource of the stack."""
    match value:
        case {"Ref": name}:
            return NAMES[name]
        case {"Fn::GetAtt": [name, attribute]}:
            return NAMES[f"{name}.{attribute}"]
        case {"Fn::Sub": text}:
            return _REFERENCE.sub(lambda found: NAMES[found[1]], text)
    return str(value)


def _grants(statements: Iterable[Mapping[str, Any]], effect: str) -> list[Grant]:
    return [
        Grant(action, tuple(map(physical, listed(statement["Resource"]))), statement.get("Condition", {}))
        for statement in statements
        if statement["Effect"] == effect
        for action in listed(statement["Action"])
    ]


def _covers(grant: Grant, call: Call) -> bool:
    is_named = fnmatchcase(call.action, grant.action) and any(_like(call.resource, name) for name in grant.resources)
    return is_named and all(_holds(operator, conditions, call) for operator, conditions in grant.condition.items())


def _holds(operator: str, conditions: Mapping[str, Any], call: Call) -> bool:
    context = dict(call.context)
    for key, patterns in conditions.items():
        given = context.get(key, ())
        fits = [any(_like(value, pattern) for pattern in listed(patterns)) for value in given]
        match operator:
            case "ForAllValues:StringLike":
                is_met = all(fits)
            case "ForAnyValue:StringLike" | "StringLike":
                is_met = any(fits)
            case "StringLikeIfExists":
                is_met = not fits or any(fits)
            case _:
                raise NotImplementedError(f"a condition of this kind: {operator}")
        if not is_met:
            return False
    return True


def _like(text: str, pattern: str) -> bool:
    """Return whether the text matches the pattern, in which stars and question marks are wildcards."""
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None
