"""The result of `make build`: the functions, their layer, and their environment on Lambda."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.aws.cloudformation import Template, variables
from tests.support.aws.sam_expansion import local_path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / ".aws-sam" / "build"
TEMPLATE = BUILD / "template.yaml"
# Lambda's version of Python, with nothing installed in it: a function imports from its artefact only.
RUNTIME = ROOT / ".lambda"
PYTHON = RUNTIME / "bin" / "python3"
RUNTIME_CLIENT = RUNTIME / "client"
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]


NO_QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/none"  # nothing is sent while nothing is overdue


@dataclass(frozen=True)
class CloudResources:
    """The resources of a function in the cloud, and the variables that lead to the cloud."""

    table: str
    bucket: str
    machine_arn: str
    environment: Mapping[str, str]

    @property
    def credentials(self) -> dict[str, str]:
        """The variables that lead to the cloud."""
        return {name: value for name, value in self.environment.items() if name.startswith("AWS_")}

    def value_of(self, name: str, value: Any) -> str:
        """Return the value here of a variable of the template."""
        if name == "TURNSTONE_STATE_MACHINE_ARN":
            return self.machine_arn
        match value:
            case {"Ref": "Table"}:
                return self.table
            case {"Ref": "Bucket"}:
                return self.bucket
            case {"Ref": "Jobs" | "Ingestions"}:
                return NO_QUEUE
        assert isinstance(value, str | int), f"{name} is {value!r}, which has no value here"
        return str(value)


@dataclass(frozen=True)
class BuiltFunction:
    """A function of the built template for these parameters of it."""

    name: str
    model_url: str = "offline"
    streaming_mode: str = "buffered"

    @cached_property
    def _template(self) -> Template:
        return built_template(ModelUrl=self.model_url, StreamingMode=self.streaming_mode)

    @cached_property
    def properties(self) -> dict[str, Any]:
        return self._template.functions[self.name]

    @property
    def folder(self) -> Path:
        """The folder that Lambda mounts as /var/task."""
        return BUILD / local_path(self.properties["Code"])

    @property
    def layer(self) -> Path:
        """The folder that Lambda mounts as /opt/python."""
        ours = [layer["Ref"] for layer in self.properties["Layers"] if isinstance(layer, dict)]
        (content,) = (self._template.resources[name]["Properties"]["Content"] for name in ours)
        return BUILD / local_path(content) / "python"

    @property
    def handler(self) -> str:
        return str(self.properties["Handler"])

    @property
    def timeout_s(self) -> int:
        return int(self.properties["Timeout"])

    def environment(self, resources: CloudResources) -> dict[str, str]:
        """Return the environment that Lambda gives it, as far as a function may rely on it, and no more."""
        return {
            "PATH": f"{PYTHON.parent}{os.pathsep}{os.defpath}",
            "PYTHONDONTWRITEBYTECODE": "1",  # on Lambda the artefact can't be written to
            **resources.credentials,
            **{name: resources.value_of(name, value) for name, value in variables(self.properties).items()},
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.properties["MemorySize"]),
            "LAMBDA_TASK_ROOT": str(self.folder),
            "_HANDLER": self.handler,
        }


def built_template(**parameters: str) -> Template:
    """Return the template as it was built, for this kind of machine."""
    assert TEMPLATE.exists(), "nothing is built: run make build"
    return Template(TEMPLATE, **{"ModelUrl": "offline", "Architecture": ARCHITECTURE, **parameters})
