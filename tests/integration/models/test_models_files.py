"""Every function of the template starts with every shape of the models file that the guide shows.

Covers: bootstrap/catalogue, bootstrap/models
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import page
from tests.integration.rights.cloud import Cloud
from tests.integration.rights.functions import environment_of, started
from tests.support.aws.cloudformation import template, variables
from tests.support.cases import rest_at_night

URL = "https://model.example/v1"
SHOWN = [
    next(block.text for block in page(name).blocks if block.language == "toml")
    for name in ("docs/guide/models.md", "docs/guide/tools.md")
]
PROVIDERS, TOOLS = (
    # on AWS keys are secrets, and no code runs in a function
    re.sub(r'api_key_env = "(\w+)"', r'api_key_secret = "\1"', shown).replace('runs = "here"', 'runs = "agentcore"')
    for shown in SHOWN
)
WITHOUT_DEFAULT = re.sub(r"^default_provider = .*\n", "", PROVIDERS, flags=re.MULTILINE)
CLOSED = WITHOUT_DEFAULT.replace('registry = "open"', 'registry = "closed"')
SHIELDS = '[shields.words]\nprovider = "pattern"\nparams = {words = ["no"]}\n'
SEARCH = '[tools.websearch]\nengine = "tavily"\napi_key_secret = "TAVILY_KEY"\n'
GROUPS = '[toolgroups."mcp::wiki"]\nmcp_endpoint = "https://wiki.example/mcp"\n'
# the text of the file, and ModelUrl beside it
SHAPES = {
    "providers and a default": (PROVIDERS, ""),
    "providers and a default, beside a URL": (PROVIDERS, URL),
    "providers, and the URL is the default": (WITHOUT_DEFAULT, URL),
    "providers, and the offline model is the default": (WITHOUT_DEFAULT, "offline"),
    "providers, and the registry is closed": (CLOSED, ""),
    "providers and tools": (PROVIDERS + TOOLS, ""),
    "a key for searches": (SEARCH, URL),
    "toolgroups": (GROUPS, "offline"),
    "shields": (SHIELDS, URL),
    "nothing": ("", URL),
}
ALWAYS = {"providers, and the registry is closed", "providers and tools", "shields", "nothing"}
WITH_FILE = {
    "CreateAgent",
    "CreateTurn",
    "ResumeTurn",
    "Models",
    "Inference",
    "Memory",
    "Responses",
    "Tools",
    "Shields",
    "Tenant",
    "Agents2024",
    "Turns2024",
    "Letta",
    "RunTurn",
    "Sweeper",
    *("CleanUp", "Ingest", "VectorStores"),
}
# at the first text to embed, or at the first content of another store
LOADING_LATER = {"CleanUp", "Ingest", "Memory", "VectorStores"}
pytestmark = pytest.mark.usefixtures("in_a_lambda")


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Cloud() as cloud:
        yield cloud


def test_the_guide_shows_providers_and_tools() -> None:
    assert "[providers." in PROVIDERS
    assert "[tools.websearch]" in TOOLS


@pytest.mark.parametrize("shape", rest_at_night(SHAPES, always=ALWAYS))
def test_every_function_starts_with_the_file(cloud: Cloud, shape: str) -> None:
    text, url = SHAPES[shape]
    cloud.texts["/turnstone/models"] = text
    made = template(ModelUrl=url, ModelsParameter="/turnstone/models", StreamingMode="buffered")
    assert made.refusals() == []
    assert {name for name, each in made.functions.items() if variables(each).get("TURNSTONE_CONFIG")} == WITH_FILE
    others = set(made.functions) - WITH_FILE if shape == "nothing" else set()  # which never see it
    for name in (*WITH_FILE, *others):
        with cloud.running(name), environment_of(made, name):
            started(made, name)
    loading = {name for name, calls in cloud.calls.items() if [c for c in calls if c.action == "ssm:GetParameter"]}
    assert loading == WITH_FILE - LOADING_LATER
