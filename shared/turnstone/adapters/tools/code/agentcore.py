"""Run code in the code interpreter of Amazon Bedrock AgentCore: one session per piece of code, stopped after it.

Source: StartCodeInterpreterSession, InvokeCodeInterpreter and StopCodeInterpreterSession in botocore's service
description; for listing and reading files, the examples of AgentCore's developer guide.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from urllib3.exceptions import ReadTimeoutError as SilentStream

from turnstone.adapters.aws.bedrock_errors import FAILURES
from turnstone.adapters.tools.code.code_runs import CodeRun
from turnstone.adapters.tools.code.produced_files import produced_file
from turnstone.domain.errors import StoreUnavailable, ToolFailed

if TYPE_CHECKING:
    from turnstone.domain.tools.tool_runs import ProducedFile
    from turnstone.domain.values.cancellation import StopSignal

FILES_TIMEOUT_S = 20  # added to the code's own time, before an abandoned session ends
MAX_FILES = 16
MAX_BYTES = 8 * 1024 * 1024
log = logging.getLogger(__name__)
Result = dict[str, Any]


class AgentCoreCode:
    """Runs code in AgentCore; each piece has its own session, isolated from all others."""

    def __init__(self, client: Callable[[int], Any], identifier: str) -> None:
        """Store the settings.

        Args:
            client: creates a client with a read timeout in seconds; may raise StoreUnavailable.
            identifier: the interpreter, AWS's own or one of the account.
        """
        self._make_client = client
        self._identifier = identifier
        self._lock = Lock()
        self._clients: dict[int, Any] = {}

    def check(self) -> None:
        """Do nothing: each session costs money, so the first run shows whether AgentCore is reachable."""

    def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
        """Return the result, after stopping the session. Raises ToolFailed."""
        try:
            client = self._client(math.ceil(timeout_s))
            session_id = self._start(client, timeout_s)
            try:
                return self._run(client, session_id, code, stop)
            finally:
                self._stop(client, session_id)
        except (ReadTimeoutError, SilentStream):
            return CodeRun("timed out", "", "")
        except ClientError as refusal:
            error_code = refusal.response.get("Error", {}).get("Code", "unknown")
            raise ToolFailed(f"AgentCore refused to run the code: {error_code}") from refusal
        except StoreUnavailable as failure:
            raise ToolFailed(str(failure)) from failure
        except FAILURES as failure:
            raise ToolFailed(f"AgentCore can't be reached: {type(failure).__name__}") from failure

    def _client(self, timeout_s: int) -> Any:
        with self._lock:
            if timeout_s not in self._clients:
                self._clients[timeout_s] = self._make_client(timeout_s)
            return self._clients[timeout_s]

    def _start(self, client: Any, timeout_s: float) -> str:
        started = client.start_code_interpreter_session(
            codeInterpreterIdentifier=self._identifier,
            sessionTimeoutSeconds=math.ceil(timeout_s) + FILES_TIMEOUT_S,
        )
        session_id: str = started["sessionId"]
        return session_id

    def _stop(self, client: Any, session_id: str) -> None:
        try:
            client.stop_code_interpreter_session(codeInterpreterIdentifier=self._identifier, sessionId=session_id)
        except (BotoCoreError, ClientError) as failure:
            # it ends by its own timeout; until then it costs money
            log.warning("session %s of AgentCore was not stopped: %s", session_id, type(failure).__name__)

    def _run(self, client: Any, session_id: str, code: str, stop: StopSignal | None) -> CodeRun:
        def invoked(name: str, **arguments: Any) -> Iterator[Result]:
            if stop is not None and stop.is_set:
                raise ToolFailed("the code was stopped, because the request was cancelled")
            answer = client.invoke_code_interpreter(
                codeInterpreterIdentifier=self._identifier, sessionId=session_id, name=name, arguments=arguments
            )
            with closing(answer["stream"]) as stream:  # an unread stream holds its connection
                yield from (event["result"] for event in stream if "result" in event)

        before = frozenset(_names(invoked("listFiles", path="")))
        run = _run_of(list(invoked("executeCode", code=code, language="python")))
        try:
            made = sorted(frozenset(_names(invoked("listFiles", path=""))) - before)
            requested = made[: MAX_FILES - len(run.files)]
            read = tuple(_files(invoked("readFiles", paths=requested))) if requested else ()
        except FAILURES as failure:  # the code's output is useful nevertheless
            return replace(run, note=f"the files it made can't be listed: {type(failure).__name__}")
        return _with_files(run, read, len(made) - len(read))


def _run_of(results: list[Result]) -> CodeRun:
    outputs = [result.get("structuredContent", {}) for result in results]
    blocks = [block for result in results for block in result.get("content", [])]
    stdout = "".join(part.get("stdout", "") for part in outputs)
    stderr = "".join(part.get("stderr", "") for part in outputs)
    exit_codes = [part["exitCode"] for part in outputs if "exitCode" in part]
    exit_code = exit_codes[-1] if exit_codes else None
    is_error = bool(exit_code) or any(result.get("isError") for result in results)
    output = "\n".join(block["text"] for block in blocks if block["type"] == "text" and "text" in block)
    if not (stdout or stderr):  # AgentCore does not report which of the two
        stdout, stderr = ("", output) if is_error else (output, "")
    shown = [block for block in blocks if block["type"] == "image" and "data" in block]
    images = [_image(number, block) for number, block in enumerate(shown[:MAX_FILES], 1)]
    return CodeRun("error" if is_error else "completed", stdout, stderr, exit_code, tuple(images))


def _image(number: int, block: Result) -> ProducedFile:
    mime_type = block.get("mimeType", "image/png")
    return produced_file(f"image-{number}.{mime_type.rpartition('/')[2]}", block["data"], mime_type)


def _names(results: Iterator[Result]) -> Iterator[str]:
    for result in results:
        for block in result.get("content", []):
            name = block.get("name") or _path(block.get("uri", ""))
            is_file = block["type"] == "resource_link" and block.get("description", "").lower() != "directory"
            if is_file and name and not name.startswith("."):
                yield name


def _files(results: Iterator[Result]) -> Iterator[ProducedFile]:
    for result in results:
        for block in result.get("content", []):
            if block["type"] == "resource":
                resource = block["resource"]
                body = resource["blob"] if "blob" in resource else resource.get("text", "").encode()
                yield produced_file(_path(resource.get("uri", "")) or "file", body)


def _path(uri: str) -> str:
    return unquote(uri.removeprefix("file://")).removeprefix("/")


def _with_files(run: CodeRun, read: tuple[ProducedFile, ...], left_out: int) -> CodeRun:
    kept: list[ProducedFile] = []
    for file in (*run.files, *read):
        if sum(len(other.body) for other in kept) + len(file.body) <= MAX_BYTES:
            kept.append(file)
        else:
            left_out += 1
    note = f"{left_out} more files were left out: too many, or too large" if left_out > 0 else run.note
    return replace(run, files=tuple(kept), note=note)
