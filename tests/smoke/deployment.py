"""The built template deployed into an emulated cloud, and requests to it signed as a client signs them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Generator
from functools import cached_property
from pathlib import Path
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import httpx

from tests.smoke.artefact import ARCHITECTURE, BUILD, ROOT, TEMPLATE
from tests.support.aws.emulator import KEY_ID, REGION, SECRET, EmulatorProcess
from tests.support.aws.sam_expansion import load_source

STACK = "smoke"
SAM = ROOT / ".sam" / "bin" / "sam"
LAYER = {"x86_64": "RuntimeX86", "arm64": "RuntimeArm"}[ARCHITECTURE]
DEPLOY_TIMEOUT_S = 120
REQUEST_TIMEOUT_S = 60.0
QUICK = {"SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "1"}
PAGE_ORIGIN = "https://app.example"
PARAMETERS = {
    "StreamingMode": "buffered",
    "Architecture": ARCHITECTURE,
    "ModelUrl": "offline",
    "Auth": "AWS_IAM",
    "CorsOrigins": PAGE_ORIGIN,
}


class Stack:
    """A deployed stack."""

    def __init__(self, emulator: EmulatorProcess) -> None:
        self._emulator = emulator
        self._services: dict[str, Any] = {}

    def service(self, name: str) -> Any:
        """Return a client of one of the cloud's services, with every right."""
        if name not in self._services:
            self._services[name] = self._emulator.client(name)
        return self._services[name]

    @cached_property
    def resources(self) -> dict[str, str]:
        """The physical ids by the logical ones."""
        answer = self.service("cloudformation").describe_stack_resources(StackName=STACK)
        return {found["LogicalResourceId"]: found["PhysicalResourceId"] for found in answer["StackResources"]}

    @property
    def url(self) -> str:
        """Where the emulator serves the API's stage."""
        return f"{self._emulator.url}/_aws/execute-api/{self.resources['Api']}/live"

    def client(self, key_id: str = KEY_ID, secret: str = SECRET) -> httpx.Client:
        """Return a client that signs with the key."""
        return httpx.Client(base_url=self.url, auth=Signed(key_id, secret), timeout=REQUEST_TIMEOUT_S)


class Signed(httpx.Auth):
    """Signs requests to an API with IAM authorization: Signature Version 4."""

    requires_request_body = True

    def __init__(self, key_id: str = KEY_ID, secret: str = SECRET) -> None:
        credentials = botocore.credentials.Credentials(key_id, secret)
        self._signer = botocore.auth.SigV4Auth(credentials, "execute-api", REGION)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        signed = botocore.awsrequest.AWSRequest(method=request.method, url=str(request.url), data=request.content)
        self._signer.add_auth(signed)
        request.headers.update(dict(signed.headers))
        yield request


def deploy(emulator: EmulatorProcess, **chosen: str) -> Stack:
    """Deploy the built template with `sam deploy`; requests are signed unless the parameters choose another `Auth`."""
    parameters = {**PARAMETERS, **chosen}
    template = _deployed_template(parameters["Auth"])
    command: list[Any] = [SAM, "deploy", "--template-file", template, "--stack-name", STACK, "--region", REGION]
    command += ["--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar"]
    command += ["--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items())]
    with tempfile.TemporaryDirectory(prefix="sam-") as folder:
        deployed = subprocess.run(
            list(map(os.fspath, command)),
            cwd=ROOT,
            env={**emulator.environment, **QUICK, "__SAM_CLI_APP_DIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEPLOY_TIMEOUT_S,
            text=True,
            check=False,
        )
    assert deployed.returncode == 0, deployed.stdout
    return Stack(emulator)


def _deployed_template(auth: str) -> Path:
    """Return the built template with that default, and a layer that leads to the built one.

    The emulator's transform is given no parameters; AWS's is. The emulator unpacks the layer once for each function,
    which takes it six seconds; `test_built_functions` runs functions on the layer itself. The template is written as
    JSON, because `sam deploy` reads it seven times, two seconds each as YAML.
    """
    template = load_source(TEMPLATE)
    template["Parameters"]["Auth"]["Default"] = auth
    template["Resources"][LAYER]["Properties"]["ContentUri"] = str(_linked_layer())
    changed = TEMPLATE.with_name(f"template-{auth}.json")
    changed.write_text(json.dumps(template))
    return changed


def _linked_layer() -> Path:
    """Return a layer whose one file puts the packages of the built layer before all others."""
    layer = BUILD / "linked"
    packages = layer / "python" / "lib" / "python3.13" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "built.pth").write_text(f"import sys; sys.path.insert(0, {str(BUILD / LAYER / 'python')!r})\n")
    return layer
