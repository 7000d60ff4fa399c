"""The page of the API in a real browser, with keys and without: it can be read, requests can be tried, no key leaks.

Covers: http/document
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.models.openai_answers import text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.browser import Browser
from tests.support.needs import need_programs
from tests.support.server.servers import ServerProcess
from tests.support.starts.commands import run_command

FORM = "document.getElementById('%s').querySelector('.try')"
HOSTILE = [
    "<img src=x onerror=\"document.title='owned'\">",
    "a\r\nX-Injected: yes",
    "schlüssel",
    "\u2028\x00",
    "x" * 100_000,
    "'\"><script>document.title='owned'</script>",
]


@pytest.fixture(scope="module")
def only_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser of all these tests, whose start takes seconds."""
    need_programs("chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(only_browser: Browser) -> Browser:
    only_browser.leave()
    return only_browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("open")) as server:
        yield server


@pytest.fixture(scope="module")
def keyed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that requires keys."""
    with ServerProcess(tmp_path_factory.mktemp("keyed"), auth="api_keys") as server:
        yield server


def key_of(server: ServerProcess) -> str:
    made = run_command("keys", "create", "ann", environment=server.key_environment())
    return made.stdout.strip()


def tried(browser: Browser, operation: str, **fields: str) -> str:
    """Try an operation with these fields of its path, query or body filled in; return the text shown of the answer."""
    form = FORM % operation
    if not browser.value(f"!!{form}.querySelector('pre')"):
        browser.value(f"{form}.querySelector('button').click()")
    for name, value in fields.items():
        field = "textarea" if name == "body" else f"input[data-name={name}]"
        browser.value(f"void ({form}.querySelector('{field}').value = {json.dumps(value)})")
    browser.value(f"void ({form}.querySelector('pre').textContent = '')")
    browser.value(f"{form}.querySelector('button').click()")
    browser.until(f"!{form}.querySelector('button').disabled && {form}.querySelector('pre').textContent")
    shown: str = browser.value(f"{form}.querySelector('pre').textContent")
    return shown


def enter(browser: Browser, key: str) -> None:
    browser.value(f"void (document.getElementById('key').value = {json.dumps(key)})")


def test_with_keys_the_page_is_read_without_one_and_requests_are_tried_with_one(
    browser: Browser, keyed_server: ServerProcess
) -> None:
    key = key_of(keyed_server)
    browser.open(f"{keyed_server.url}/docs")
    assert "Turnstone" in browser.value("document.title")
    assert tried(browser, "version").startswith("401 ")
    enter(browser, key)
    assert '"version"' in tried(browser, "version")
    made = json.loads(tried(browser, "create_agent").partition("\n\n")[2])
    shown = tried(browser, "get_agent", agent_id=made["agent_id"])
    assert shown.startswith("200 ")
    assert "You are a helpful assistant." in shown
    stored = "[localStorage.length, sessionStorage.length, document.cookie, location.href, history.length]"
    assert browser.value(stored)[:4] == [0, 0, "", f"{keyed_server.url}/docs"]
    assert {url.split("/")[2] for url, _ in browser.requests if url.startswith("http")} == {keyed_server.url[7:]}
    assert not [url for url, _ in browser.requests if key in url]
    assert key not in keyed_server.log
    browser.open(f"{keyed_server.url}/docs")
    assert browser.value("document.getElementById('key').value") == ""
    assert tried(browser, "version").startswith("401 ")
    assert not [text for text in browser.complaints if "401" not in text]


def test_forgetting_a_key_forgets_it(browser: Browser, keyed_server: ServerProcess) -> None:
    browser.open(f"{keyed_server.url}/v1/docs")
    enter(browser, key_of(keyed_server))
    assert tried(browser, "version").startswith("200 ")
    browser.value("document.getElementById('forget').click()")
    assert tried(browser, "version").startswith("401 ")


def test_hostile_text_in_a_key_or_a_field_runs_nothing_and_is_sent_nowhere_else(
    browser: Browser, keyed_server: ServerProcess
) -> None:
    browser.open(f"{keyed_server.url}/docs")
    title = browser.value("document.title")
    for text in HOSTILE:
        enter(browser, text)
        shown = tried(browser, "version")
        assert shown.startswith(("401 ", "431 ", "not sent"))
    enter(browser, key_of(keyed_server))
    for text in (
        "../../../v1/version",
        "//evil.example/x",
        "https://evil.example",
        "?a=b#c",
        HOSTILE[0],
        "{agent_id}",
    ):
        shown = tried(browser, "get_agent", agent_id=text)
        assert shown.startswith(("404 ", "400 ")), shown
    assert tried(browser, "get_agent", agent_id="").startswith("not sent")
    assert browser.value("document.title") == title
    assert browser.value("document.querySelectorAll('img, iframe').length") == 0
    assert {url.split("/")[2] for url, _ in browser.requests if url.startswith("http")} == {keyed_server.url[7:]}
    assert not [headers for _, headers in browser.requests if "X-Injected" in headers]


def test_an_answer_of_a_model_is_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    with (
        ModelServer(lambda _: text_answer(HOSTILE[0])) as model,
        ServerProcess(tmp_path, model_url=model.url) as server,
    ):
        browser.open(f"{server.url}/docs")
        shown = tried(browser, "create_chat_completion")
        assert "onerror" in shown
        assert browser.value("document.title") != "owned"
        assert not browser.value("!!document.getElementById('key')"), "no key is required"


def test_a_page_without_keys_streams_a_turn(browser: Browser, server: ServerProcess) -> None:
    browser.open(f"{server.url}/docs")
    agent = json.loads(tried(browser, "create_agent").partition("\n\n")[2])
    opened = tried(browser, "create_session", agent_id=agent["agent_id"])
    session = json.loads(opened.partition("\n\n")[2])
    shown = tried(browser, "create_turn", **agent, **session)
    assert "turn_complete" in shown
    assert browser.complaints == []


def test_the_policy_blocks_other_scripts_and_requests_to_other_origins(browser: Browser, server: ServerProcess) -> None:
    browser.open(f"{server.url}/docs")
    # not even a text may become a script: trusted types are required
    adding = "(() => { try { document.createElement('script').text = '1' } catch { return 'refused' } })()"
    assert browser.value(adding) == "refused"
    fetching = "fetch('http://localhost:9/').then(() => 'sent', error => 'blocked')"
    assert browser.value(fetching) == "blocked"
    assert any("connect-src" in text for text in browser.complaints)


def test_todays_routes_come_before_those_of_2024_and_unserved_ones_last(
    browser: Browser, server: ServerProcess
) -> None:
    browser.open(f"{server.url}/docs")
    heads = browser.value("[...document.querySelectorAll('h2')].map(head => head.textContent)")
    of_2024 = [head for head in heads if "2024" in head]
    assert heads[0] == "agents"
    assert heads[-len(of_2024) - 3 :] == [*of_2024, "letta", "Not served", "Schemas"]
    assert len(of_2024) == 1


def test_the_root_leads_browsers_to_the_page_and_returns_addresses_to_programs(
    browser: Browser, keyed_server: ServerProcess
) -> None:
    browser.open(f"{keyed_server.url}/")
    browser.value("document.querySelector('a').click()")
    browser.until("location.pathname === '/docs' && document.readyState === 'complete'")
    addresses = httpx.get(f"{keyed_server.url}/").json()
    assert addresses == {
        "name": "Turnstone",
        "description": addresses["description"],
        "docs": "/docs",
        "openapi": "/openapi.json",
        "health": "/v1/health",
    }
    for name in ("docs", "openapi", "health"):
        assert httpx.get(keyed_server.url + addresses[name]).status_code == 200
    for accept in ("application/json", "*/*", "", "application/json, text/html"):
        assert httpx.get(f"{keyed_server.url}/", headers={"accept": accept}).json() == addresses
