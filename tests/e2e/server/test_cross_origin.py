"""A page of another origin in a real browser: a listed one follows a turn's stream, another one reads nothing.

Covers: http/origins, functions/local/server
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.support.clients.browser import Browser
from tests.support.needs import need_programs
from tests.support.server.servers import ServerProcess

AGENT = {"agent_config": {"model": "offline", "instructions": ""}}
TURN = {"messages": [{"role": "user", "content": "hello " * 200}], "stream": True}
FOLLOWED = """
(async () => {
  const headers = {authorization: 'Bearer ' + %(key)s, 'content-type': 'application/json', 'x-stainless-lang': 'js'};
  const post = (path, body) => fetch(%(url)s + path, {method: 'POST', headers, body: JSON.stringify(body)});
  const {agent_id} = await (await post('/v1/agents', %(agent)s)).json();
  const {session_id} = await (await post(`/v1/agents/${agent_id}/session`, {session_name: 's'})).json();
  const answer = await post(`/v1/agents/${agent_id}/session/${session_id}/turn`, %(turn)s);
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = '', parts = 0;
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    parts += 1;
    text += decoder.decode(value, {stream: true});
  }
  return {status: answer.status, id: answer.headers.get('x-request-id'), parts, text};
})()
"""
READ = """
fetch(%(url)s + %(path)s, %(options)s).then(
  async (answer) => ({status: answer.status, headers: [...answer.headers.keys()], body: await answer.json()}),
  (problem) => ({problem: problem.name}))
"""


@pytest.fixture(autouse=True)
def _program() -> None:
    need_programs("chromium")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@contextmanager
def page(folder: Path) -> Iterator[str]:
    """Serve an empty page; yield its origin."""
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text("<!doctype html><title>page</title>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()


def key_of(server: ServerProcess) -> str:
    command = [sys.executable, "-m", "turnstone", "keys", "create", "ann"]
    made = subprocess.run(command, env=server.key_environment(), capture_output=True, text=True, check=True)
    return made.stdout.strip()


def read(browser: Browser, server: ServerProcess, path: str, **options: object) -> dict[str, Any]:
    texts = {"url": json.dumps(server.url), "path": json.dumps(path), "options": json.dumps(options)}
    found: dict[str, Any] = browser.value(READ % texts)
    return found


def test_a_page_of_a_listed_origin_follows_a_turn_and_reads_errors_and_no_other_page_does(tmp_path: Path) -> None:
    with page(tmp_path / "page") as listed, page(tmp_path / "page") as other:
        settings = {"auth": "api_keys", "cors_origins": listed, "max_body_bytes": 10_000}
        with ServerProcess(tmp_path, **settings) as server, Browser(tmp_path / "profile") as browser:
            key = key_of(server)
            texts = {"url": server.url, "key": key, "agent": AGENT, "turn": TURN}
            script = FOLLOWED % {name: json.dumps(value) for name, value in texts.items()}
            bearer = {"authorization": f"Bearer {key}"}

            browser.open(f"{listed}/")
            followed = browser.value(script)
            assert (followed["status"], bool(followed["id"])) == (200, True)
            assert "turn_complete" in followed["text"]
            assert followed["parts"] > 1, "the page received the stream at once"
            refused = read(browser, server, "/v1/agents")
            assert (refused["status"], refused["body"]["code"]) == (401, "unauthenticated")
            assert {"www-authenticate", "x-should-retry", "x-request-id"} <= set(refused["headers"])
            assert read(browser, server, "/nowhere", headers=bearer)["status"] == 404
            assert read(browser, server, "/v1/agents", method="PUT", headers=bearer)["status"] == 405
            large = read(browser, server, "/v1/agents", method="POST", headers=bearer, body="x" * 10_001)
            assert (large["status"], large["body"]["code"]) == (413, "body_too_large")

            browser.open(f"{other}/")
            assert read(browser, server, "/v1/agents", headers=bearer) == {"problem": "TypeError"}
            assert read(browser, server, "/v1/health") == {"problem": "TypeError"}
            assert read(browser, server, "/v1/agents", method="POST", headers=bearer, body=json.dumps(AGENT)) == {
                "problem": "TypeError"
            }
            assert any("CORS policy" in complaint for complaint in browser.complaints)
