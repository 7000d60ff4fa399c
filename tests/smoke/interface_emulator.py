"""A built function under Lambda's own runtime client and aws-lambda-rie, which plays the service's part."""

from __future__ import annotations

import http.client
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.smoke.artefact import ARCHITECTURE, PYTHON, ROOT, RUNTIME_CLIENT, BuiltFunction, CloudResources
from tests.smoke.function_process import FunctionProcess
from tests.support.server.servers import HOST, free_port

INVOCATIONS = "/2015-03-31/functions/function/invocations"
PATIENCE_S = 60.0
FAILED_TO_START = 502


@dataclass(frozen=True)
class Invocation:
    """The answer: JSON, or the emulator's text about a missing answer."""

    answer: Any
    took_ms: float


class InvokedFunction(FunctionProcess):
    """The function, not started before its first event. The emulator ends it when it is ended itself."""

    def __init__(
        self, function: BuiltFunction, resources: CloudResources, *, timeout_s: int | None = None, **more: str
    ) -> None:
        """Prepare it. `timeout_s` replaces the template's; `more` are further variables of its environment."""
        super().__init__(function, free_port())
        self._environment = {
            **function.environment(resources),
            "PYTHONPATH": os.pathsep.join(map(str, (function.folder, function.layer, RUNTIME_CLIENT))),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout_s or function.timeout_s),
            **more,
        }

    def command(self) -> list[Path | str]:
        return [
            executable(),
            *("--log-level", "error"),
            *("--runtime-interface-emulator-address", f"{HOST}:{self._port}"),
            *("--runtime-api-address", f"{HOST}:{free_port()}"),
            *(PYTHON, "-m", "awslambdaric", self._function.handler),
        ]

    def environment(self) -> dict[str, str]:
        return self._environment

    def invoke(self, event: dict[str, Any]) -> Invocation:
        """Return the function's answer to the event, and the time that it took."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=PATIENCE_S)
        began = time.perf_counter()
        try:
            connection.request("POST", INVOCATIONS, json.dumps(event))
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        took_ms = (time.perf_counter() - began) * 1_000
        assert response.status in (200, FAILED_TO_START), (response.status, body)
        try:
            return Invocation(json.loads(body), took_ms)
        except ValueError:
            return Invocation(body.decode(), took_ms)


def executable() -> Path:
    """Return aws-lambda-rie, which comes with the SAM CLI."""
    found = sorted(ROOT.glob(f".sam/lib/python3.*/site-packages/samcli/local/rapid/aws-lambda-rie-{ARCHITECTURE}"))
    assert found, "the SAM CLI is not set up: run make build"
    return found[0]
