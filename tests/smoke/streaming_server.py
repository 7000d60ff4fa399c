"""A streaming function's own web server, started by its start script from the built artefact."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.smoke.artefact import BuiltFunction, CloudResources
from tests.smoke.function_process import FunctionProcess
from tests.support.aws.aws_events import load_event
from tests.support.server.servers import HOST, free_port


class StreamingServer(FunctionProcess):
    """The server, started as by the Lambda Web Adapter, which is missing here.

    On Lambda the layer is in /opt; here the environment names its folder.
    """

    ended_by = signal.SIGKILL  # it would wait for its turns; and the script has become the server

    def __init__(self, function: BuiltFunction, resources: CloudResources) -> None:
        super().__init__(function, free_port())
        self._resources = resources

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def command(self) -> list[Path]:
        return [self._function.folder / self._function.handler]

    def environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(self._function.layer), "AWS_LWA_PORT": str(self._port)}
        return {**self._function.environment(self._resources), **own}


def adapter_headers(left: timedelta = timedelta(minutes=15)) -> dict[str, str]:
    """Return the headers that the adapter makes of the gateway's event and of the invocation.

    Source: the Lambda Web Adapter's README, which names both; the deadline is in milliseconds since 1970.
    """
    context = {
        "request_id": "00000000-0000-4000-8000-000000000000",
        "deadline": int((datetime.now(UTC) + left).timestamp() * 1_000),
        "invoked_function_arn": "arn:aws:lambda:eu-central-1:123456789012:function:function",
    }
    return {
        "x-amzn-request-context": json.dumps(load_event("create_turn")["requestContext"]),
        "x-amzn-lambda-context": json.dumps(context),
    }
