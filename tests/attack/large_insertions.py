"""Insertions of texts as large as a body may be, all at once, while others need the server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.attack.finding import Attack, Finding
from tests.attack.tenant_share import made_key
from tests.support.server.servers import HOST, ServerProcess

FULL_CHARACTERS, SOME_CHARACTERS = 3_000_000, 1_500_000
HEALTH_S = 0.5
PATIENCE_S = 120.0
POLLED_EVERY_S = 0.05
SEARCH_S = 3.0
BANK = {"memory_bank_id": "shore", "params": {"memory_bank_type": "vector", "embedding_model": "offline"}}


def run(folder: Path, full: bool) -> Iterator[Finding]:
    requests, characters = (12, FULL_CHARACTERS) if full else (6, SOME_CHARACTERS)
    keys = [made_key(folder / "data", tenant) for tenant in ("greedy", "modest")]
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(folder, authorization=f"Bearer {keys[0]}", auth="api_keys"))
        greedy, modest = (stack.enter_context(client_of(server, key)) for key in keys)
        for each in (greedy, modest):
            each.post("/v1/memory-banks", json=BANK).raise_for_status()
        documents = {"documents": [{"document_id": "one", "content": "A tern.", "metadata": {}}]}
        modest.post("/v1/memory-banks/shore/documents", json=documents).raise_for_status()
        modest.post("/v1/memory-banks/shore/query", json={"query": "tern"}).raise_for_status()  # loads the index
        texts = [text_of(number, characters) for number in range(requests)]
        pool = stack.enter_context(ThreadPoolExecutor(requests))
        watch = stack.enter_context(Watch(server, keys[1]))
        answers = list(pool.map(lambda numbered: inserted(greedy, *numbered), enumerate(texts)))
        watch.stop()
        statuses = Counter(answer.status_code for answer in answers)
        refused = [answer for answer in answers if answer.status_code != 200]
        has_reason = all(answer.status_code == 503 and "retry-after" in answer.headers for answer in refused)
        what = f"{requests} insertions of {characters / 1e6:.1f} MB at once"
        measured = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
        yield Finding(what, measured, "200, or 503 with retry-after", has_reason and statuses[200] > 0)
        yield slowest("health meanwhile", watch.health_s, HEALTH_S)
        yield slowest("another tenant's search meanwhile", watch.search_s, SEARCH_S)
        kept = {each["document_id"] for each in greedy.get("/v1/memory-banks/shore/documents").json()["data"]}
        expected = {f"text {number}" for number, answer in enumerate(answers) if answer.status_code == 200}
        yield Finding("documents of them", f"{len(kept)}", f"{len(expected)}", kept == expected)


class Watch:
    """Requests the health of the server and searches as another tenant, while the `with` block lasts."""

    def __init__(self, server: ServerProcess, key: str) -> None:
        self.health_s: list[float] = []
        self.search_s: list[float] = []
        self._client = client_of(server, key)
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._request, args=(self.health_s, "GET", "/v1/health", None)),
            threading.Thread(
                target=self._request, args=(self.search_s, "POST", "/v1/memory-banks/shore/query", {"query": "tern"})
            ),
        ]

    def __enter__(self) -> Watch:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    def stop(self) -> None:
        self._ends.set()
        for each in self._threads:
            each.join()

    def _request(self, taken_s: list[float], method: str, path: str, body: Any) -> None:
        while not self._ends.wait(POLLED_EVERY_S):
            began = time.monotonic()
            self._client.request(method, path, json=body).raise_for_status()
            taken_s.append(time.monotonic() - began)


def client_of(server: ServerProcess, key: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.Client(base_url=f"http://{HOST}:{server.port}", headers=headers, timeout=PATIENCE_S)


def inserted(client: httpx.Client, number: int, text: str) -> httpx.Response:
    documents = [{"document_id": f"text {number}", "content": text, "metadata": {}}]
    return client.post("/v1/memory-banks/shore/documents", json={"documents": documents})


def text_of(number: int, characters: int) -> str:
    """Return a text of many different words."""
    words = " ".join(f"tern{number}x{index % 90_000}" for index in range(characters // 8))
    return words[:characters]


def slowest(what: str, taken_s: list[float], most_s: float) -> Finding:
    worst = max(taken_s, default=0.0)
    measured = f"{worst:.2f} s at most of {len(taken_s)}"
    return Finding(what, measured, f"{most_s:g} s", bool(taken_s) and worst <= most_s)


ATTACK = Attack("large insertions", run)
