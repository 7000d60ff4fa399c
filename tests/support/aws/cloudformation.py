"""A template as CloudFormation deploys it for given parameters: expanded by SAM, conditions decided, maps looked up.

References to resources stay as they are, `{"Ref": …}`, `{"Fn::GetAtt": […]}` or `${…}` in a `Fn::Sub`; everything else
is resolved for the account ACCOUNT and the chosen region.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tests.support.aws.sam_expansion import expand, shared_source

ROOT = Path(__file__).parents[3]
ACCOUNT = "123456789012"
REGION = "eu-central-1"
STACK = "turnstone"
NO_VALUE = {"Ref": "AWS::NoValue"}
FUNCTION = "AWS::Lambda::Function"
_SUBSTITUTED = re.compile(r"\$\{([^}!]+)\}")


class Template:
    """The template in a file. Parameters that are not given have their defaults; one without must be given.

    Attributes:
        expanded: the output of the transform, with unresolved conditions and references.
        resources: the resources that are made, resolved.
    """

    def __init__(self, path: Path, *, region: str = REGION, **parameters: str) -> None:
        self._path, self._region, self._source = path, region, shared_source(path)
        declared = self.declared_parameters
        assert not set(parameters) - set(declared), "no such parameter"
        self._texts = {name: str(parameters.get(name, given.get("Default"))) for name, given in declared.items()}
        self.parameters = {name: _value(given, parameters.get(name)) for name, given in declared.items()}
        assert None not in self.parameters.values(), "a parameter has no value"
        self._pseudo = _pseudo_parameters(region)

    @cached_property
    def expanded(self) -> dict[str, Any]:
        return expand(self._path, self._region, self._texts)

    @cached_property
    def resources(self) -> dict[str, Any]:
        made = {name: resource for name, resource in self.expanded["Resources"].items() if self._is_made(resource)}
        return {name: self._resolved(resource) for name, resource in made.items()}

    @cached_property
    def functions(self) -> dict[str, dict[str, Any]]:
        return self.of_type(FUNCTION)

    @property
    def declared_parameters(self) -> dict[str, Any]:
        declared: dict[str, Any] = self._source["Parameters"]
        return declared

    @property
    def outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = self._resolved(self.expanded["Outputs"])
        return outputs

    @property
    def body(self) -> dict[str, Any]:
        """The definition of the API, in OpenAPI."""
        ((_, api),) = self.of_type("AWS::ApiGateway::RestApi").items()
        body: dict[str, Any] = api["Body"]
        return body

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the properties of the resources of that type, by logical id."""
        return {name: r.get("Properties", {}) for name, r in self.resources.items() if r["Type"] == kind}

    def statements(self, holder: str) -> Iterator[dict[str, Any]]:
        """Yield the statements of the policies that a function or state machine has, AWS's own policies left out."""
        role = self.role(holder)
        for policy in role.get("ManagedPolicyArns", []):
            if isinstance(policy, dict):
                yield from self.resources[policy["Ref"]]["Properties"]["PolicyDocument"]["Statement"]
        for inline in role.get("Policies", []):
            yield from inline["PolicyDocument"]["Statement"]

    def role(self, holder: str) -> dict[str, Any]:
        """Return the role of a function or state machine."""
        role: dict[str, Any] = self.resources[f"{holder}Role"]["Properties"]
        return role

    def refusals(self) -> list[str]:
        """Return why CloudFormation would reject the parameters: their names, and the texts of broken rules.

        The transform leaves rules, conditions, mappings and parameters as they are, so it is not needed for them.
        """
        wrong = [name for name, given in self.declared_parameters.items() if not _fits(given, self.parameters[name])]
        rules = [rule for rule in self._source.get("Rules", {}).values() if self._applies(rule)]
        asserted = [assertion for rule in rules for assertion in rule["Assertions"]]
        return [*wrong, *(a["AssertDescription"] for a in asserted if not self._holds(a["Assert"]))]

    def _applies(self, rule: Mapping[str, Any]) -> bool:
        return "RuleCondition" not in rule or self._holds(rule["RuleCondition"])

    def _is_made(self, resource: Mapping[str, Any]) -> bool:
        return "Condition" not in resource or self._holds({"Condition": resource["Condition"]})

    def _holds(self, condition: Any) -> bool:
        match condition:
            case {"Condition": name}:
                return self._holds(self._condition(name))
            case {"Fn::Equals": [left, right]}:
                return bool(self._resolved(left) == self._resolved(right))
            case {"Fn::Contains": [listed, one]}:
                return self._resolved(one) in self._resolved(listed)
            case {"Fn::Not": [inner]}:
                return not self._holds(inner)
            case {"Fn::And": inner}:
                return all(map(self._holds, inner))
            case {"Fn::Or": inner}:
                return any(map(self._holds, inner))
        raise NotImplementedError(f"a condition of this kind: {condition!r}")

    def _condition(self, name: str) -> Any:
        conditions = self._source["Conditions"]
        return conditions[name] if name in conditions else self.expanded["Conditions"][name]

    def _resolved(self, value: Any) -> Any:
        match value:
            case {"Fn::If": [name, yes, no]}:
                return self._resolved(yes if self._holds({"Condition": name}) else no)
            case {"Ref": name} if name in self.parameters or name in self._pseudo:
                return {**self._pseudo, **self.parameters}[name]
            case {"Fn::FindInMap": path}:
                return self._found_in_map(*map(self._resolved, path))
            case {"Fn::Join": [between, parts]}:
                return str(between).join(self._resolved(parts))
            case {"Fn::Select": [index, {"Fn::Split": [between, text]}]}:
                return str(self._resolved(text)).split(between)[int(index)]
            case {"Fn::Sub": [text, names]}:
                return self._substituted(text, {name: self._resolved(given) for name, given in names.items()})
            case {"Fn::Sub": text}:
                return self._substituted(text, {})
            case dict():
                resolved = {key: self._resolved(inner) for key, inner in value.items()}
                return {key: inner for key, inner in resolved.items() if inner != NO_VALUE}
            case list():
                return [inner for inner in map(self._resolved, value) if inner != NO_VALUE]
        return value

    def _found_in_map(self, mapping: str, first: str, second: str) -> Any:
        return self._source["Mappings"][mapping][first][second]

    def _substituted(self, text: str, names: Mapping[str, Any]) -> str | dict[str, str]:
        scope = {**self._pseudo, **self.parameters, **{name: _in_text(given) for name, given in names.items()}}
        put_in = _SUBSTITUTED.sub(lambda found: str(scope.get(found[1], found[0])), text)
        return {"Fn::Sub": put_in} if _SUBSTITUTED.search(put_in) else put_in


def _pseudo_parameters(region: str) -> dict[str, str]:
    beginning = region.partition("-")[0]
    partition = {"cn": "aws-cn"}.get(beginning, "aws-us-gov" if region.startswith("us-gov-") else "aws")
    return {
        "AWS::AccountId": ACCOUNT,
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackName": STACK,
        "AWS::URLSuffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
    }


def _in_text(value: Any) -> Any:
    """Return the text of a reference to the target of the value."""
    match value:
        case {"Ref": name}:
            return f"${{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{name}.{attribute}}}"
    return value


def _value(declared: dict[str, Any], given: str | None) -> Any:
    """Return the value of a parameter; an empty list has one empty text."""
    text = declared.get("Default") if given is None else given
    return text.split(",") if declared["Type"] == "CommaDelimitedList" and text is not None else text


def _fits(declared: dict[str, Any], value: Any) -> bool:
    """Return whether the declaration of a parameter allows the value."""
    for each in value if isinstance(value, list) else [value]:
        if not re.search(str(declared.get("AllowedPattern", "")), str(each)):
            return False
        if each not in declared.get("AllowedValues", [each]) and str(each) not in declared.get("AllowedValues", ()):
            return False
        if declared["Type"] == "Number":
            low, high = declared.get("MinValue", float("-inf")), declared.get("MaxValue", float("inf"))
            if not low <= float(each) <= high:
                return False
    return True


@cache
def template(*, region: str = REGION, **parameters: str) -> Template:
    """Return the project's template, with the offline model unless another is named; leave it as it is."""
    return Template(ROOT / "template.yaml", region=region, **{"ModelUrl": "offline", **parameters})


def variables(function: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of a function."""
    environment: dict[str, Any] = function["Environment"]["Variables"]
    return environment


def listed(value: Any) -> list[Any]:
    """Return as a list a value that may stand alone or in a list."""
    return value if isinstance(value, list) else [value]
