"""A real browser without a window, driven over its own pipe."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from tests.support.needs import program

TIMEOUT_S = 30.0


class Browser:
    """Chromium with a profile of its own, while the `with` block lasts; one page.

    Attributes:
        requests: the URL and headers of every request that it sent.
        complaints: the messages in its console, such as breaches of a content security policy.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._session: str | None = None
        self._unread = b""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        chromium = program("chromium")
        assert chromium is not None
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        switches = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        switches += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command = [chromium, *switches, "--remote-debugging-pipe", f"--user-data-dir={self._folder}", "about:blank"]

        def begin() -> None:
            os.dup2(theirs_in, 13)
            os.dup2(theirs_out, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        self._process = subprocess.Popen(
            command, preexec_fn=begin, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the browser's answer; note the events that come before it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            received = self._next()
            if received.get("id") == self._number:
                assert "error" not in received, received
                answer: dict[str, Any] = received["result"]
                return answer
            self._note(received)

    def leave(self) -> None:
        """Leave the page, and forget its requests and complaints."""
        self.command("Page.navigate", url="about:blank")
        self.until("document.readyState === 'complete' && location.href === 'about:blank'")
        self.requests.clear()
        self.complaints.clear()

    def open(self, url: str) -> None:
        """Open the page and wait until it is loaded."""
        self.command("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """Return the value of the JavaScript expression, once it is settled."""
        received = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in received, received
        return received["result"].get("value")

    def until(self, expression: str) -> Any:
        """Return the expression's value as soon as it is one."""
        until_s = time.monotonic() + TIMEOUT_S
        while not (found := self.value(expression)):
            assert time.monotonic() < until_s, f"in vain: {expression}"
            time.sleep(0.02)
        return found

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received

    def _note(self, received: dict[str, Any]) -> None:
        details = received.get("params", {})
        match received.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append((details["request"]["url"], details["request"]["headers"]))
            case "Log.entryAdded":
                self.complaints.append(details["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(details["exceptionDetails"]))
