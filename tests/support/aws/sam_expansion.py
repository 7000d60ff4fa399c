"""A template as the SAM transform expands it, which is what CloudFormation deploys.

The transform takes code from a bucket only. A local path becomes the key of an object in the bucket LOCAL, so
`local_path` finds it again.
"""

from __future__ import annotations

import json
import logging
import tempfile
from copy import deepcopy
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.utils.py27hash_fix import to_py27_compatible_template, undo_mark_unicode_str_in_template

EXPANSIONS = Path(__file__).parents[3] / "build" / "expansions"
LOCAL = "local"
CODE = ("CodeUri", "ContentUri", "DefinitionUri")
for _noisy in ("samtranslator.feature_toggle.feature_toggle", "samtranslator.metrics.metrics"):
    logging.getLogger(_noisy).setLevel(logging.ERROR)  # warns of toggles and figures that only AWS itself has


def load_source(path: Path) -> dict[str, Any]:
    """Return a template as it is written, its short forms made long."""
    source: dict[str, Any] = deepcopy(_loaded(path, path.stat().st_mtime_ns))
    return source


def shared_source(path: Path) -> dict[str, Any]:
    """Return a template as it is written, its short forms made long; it is shared, so leave it as it is."""
    source: dict[str, Any] = _loaded(path, path.stat().st_mtime_ns)
    return source


def expand(path: Path, region: str, parameters: dict[str, str]) -> dict[str, Any]:
    """Return the expansion of the template for these parameters; it is shared, so leave it as it is."""
    return _expanded(path, path.stat().st_mtime_ns, region, tuple(sorted(parameters.items())))


def local_path(content: dict[str, Any]) -> str:
    """Return where code lies that the source names by a local path."""
    bucket, key = (content.get(f"S3{part}", content.get(part)) for part in ("Bucket", "Key"))
    assert bucket == LOCAL, f"{content} is no local code"
    return str(key)


@cache
def _loaded(path: Path, _changed_at: int) -> Any:
    return yaml.load(path.read_text(), _Loader)


@cache
def _expanded(path: Path, changed_at: int, region: str, parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return the expansion; later processes find it in a folder, because it takes a second."""
    of_what = repr((path.read_bytes(), version("aws-sam-translator"), region, parameters)).encode()
    kept = EXPANSIONS / sha256(of_what).hexdigest()
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
            json.dump(_translated(path, changed_at, region, parameters), file)
        Path(file.name).rename(kept)
    shared: dict[str, Any] = json.loads(kept.read_bytes())
    return shared


def _translated(path: Path, changed_at: int, region: str, parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    source = deepcopy(_loaded(path, changed_at))
    for resource in (source.get("Globals", {}).get("Function", {}), *_properties(source)):
        for name in CODE:
            if isinstance(resource.get(name), str):
                resource[name] = f"s3://{LOCAL}/{resource[name]}"
    values = dict(parameters)
    to_py27_compatible_template(source, values)
    translator = Translator(None, Parser(), boto_session=SimpleNamespace(region_name=region))
    expanded = translator.translate(source, values, passthrough_metadata=True, get_managed_policy_map=dict)
    made: dict[str, Any] = undo_mark_unicode_str_in_template(expanded)
    return made


def _properties(source: dict[str, Any]) -> list[dict[str, Any]]:
    return [resource.get("Properties", {}) for resource in source["Resources"].values()]


class _Loader(yaml.CSafeLoader):
    """Parses CloudFormation's short forms."""


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
