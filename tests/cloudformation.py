"""A template as CloudFormation would read it for given parameters: conditions decided, globals in their places.

References to resources stay as they are, `{"Ref": …}`, `{"Fn::GetAtt": […]}` or `${…}` in a `Fn::Sub`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
NO_VALUE = {"Ref": "AWS::NoValue"}
_SUBSTITUTED = re.compile(r"\$\{([^}!]+)\}")


class Template:
    """The template in a file. Parameters that are not given have their defaults; one without must be given."""

    def __init__(self, path: Path, **parameters: str) -> None:
        self._raw = yaml.load(path.read_text(), _Loader)
        declared = self._raw["Parameters"]
        self.parameters = {name: _value(given, parameters.get(name)) for name, given in declared.items()}
        assert not set(parameters) - set(declared), "no such parameter"
        assert None not in self.parameters.values(), "a parameter has no value"
        common = self._raw["Globals"]["Function"]
        given = {name: _with_globals(common, resource) for name, resource in self._raw["Resources"].items()}
        self.resources = {name: self._resolved(resource) for name, resource in given.items() if self._is_made(resource)}

    @property
    def functions(self) -> dict[str, dict[str, Any]]:
        return self.of_type("AWS::Serverless::Function")

    @property
    def declared_parameters(self) -> dict[str, Any]:
        declared: dict[str, Any] = self._raw["Parameters"]
        return declared

    @property
    def rules(self) -> dict[str, Any]:
        rules: dict[str, Any] = self._raw["Rules"]
        return rules

    @property
    def outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = self._resolved(self._raw["Outputs"])
        return outputs

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the properties of the resources of that type, by logical id."""
        return {name: r.get("Properties", {}) for name, r in self.resources.items() if r["Type"] == kind}

    def _is_made(self, resource: Mapping[str, Any]) -> bool:
        return "Condition" not in resource or self._holds({"Condition": resource["Condition"]})

    def _holds(self, condition: Any) -> bool:
        match condition:
            case {"Condition": name}:
                return self._holds(self._raw["Conditions"][name])
            case {"Fn::Equals": [left, right]}:
                return bool(self._resolved(left) == self._resolved(right))
            case {"Fn::Not": [inner]}:
                return not self._holds(inner)
        raise NotImplementedError(f"a condition of this kind: {condition!r}")

    def _resolved(self, value: Any) -> Any:
        match value:
            case {"Fn::If": [name, yes, no]}:
                return self._resolved(yes if self._holds({"Condition": name}) else no)
            case {"Ref": name} if name in self.parameters:
                return self.parameters[name]
            case {"Fn::Join": [between, parts]}:
                return str(between).join(self._resolved(parts))
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

    def _substituted(self, text: str, names: Mapping[str, Any]) -> dict[str, str]:
        known = {**self.parameters, **names}
        return {"Fn::Sub": _SUBSTITUTED.sub(lambda found: str(known.get(found[1], found[0])), text)}


def _value(declared: dict[str, Any], given: str | None) -> Any:
    """Return what a parameter is; a list of nothing has one empty text."""
    text = declared.get("Default") if given is None else given
    return text.split(",") if declared["Type"] == "CommaDelimitedList" and text is not None else text


def _with_globals(common: dict[str, Any], resource: dict[str, Any]) -> dict[str, Any]:
    if resource["Type"] != "AWS::Serverless::Function":
        return resource
    return {**resource, "Properties": _merged(common, resource["Properties"])}


def _merged(common: Any, own: Any) -> Any:
    """Return what a resource has of the globals and of itself, as the transform merges them."""
    if isinstance(common, dict) and isinstance(own, dict):
        return {key: _merged(common.get(key), own.get(key)) for key in {**common, **own}}
    if isinstance(common, list) and isinstance(own, list):
        return [*common, *own]
    return common if own is None else own


class _Loader(yaml.SafeLoader):
    """Knows CloudFormation's short forms."""


def _long_form(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if tag == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


_Loader.add_multi_constructor("!", _long_form)


def template(**parameters: str) -> Template:
    """Return the project's template, with the offline model unless another is named."""
    return Template(ROOT / "template.yaml", **{"ModelUrl": "offline", **parameters})


def variables(function: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of a function."""
    environment: dict[str, Any] = function["Environment"]["Variables"]
    return environment


def listed(value: Any) -> list[Any]:
    """Return what may be given alone or as a list."""
    return value if isinstance(value, list) else [value]
