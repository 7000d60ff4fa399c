"""Every setting of the code and every parameter of the template is documented, and nothing else is.

Covers: docs/operate, settings
"""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import Page, page, pages, table_keys
from tests.support.aws.cloudformation import ROOT
from tests.support.aws.sam_expansion import load_source
from turnstone.settings.auth_settings import AuthorizerSettings, AuthSettings, TableSettings
from turnstone.settings.client_settings import ClientSettings
from turnstone.settings.config import LambdaSettings, Settings, variable_of
from turnstone.settings.local_settings import LocalSettings

KINDS = (Settings, AuthSettings, LocalSettings, LambdaSettings, AuthorizerSettings, TableSettings, ClientSettings)
IN_CODE = {variable_of(field) for kind in KINDS for field in kind.model_fields}
OF_TESTS = {"TURNSTONE_REQUIRE_ALL", "TURNSTONE_TEST_TABLE", "TURNSTONE_TEST_BUCKET", "TURNSTONE_TEST_VECTOR_BUCKET"}
VARIABLE = r"TURNSTONE_[A-Z0-9_]+"


@pytest.fixture(scope="module")
def configuration() -> Page:
    return page("docs/operate/configuration.md")


def test_every_variable_has_one_row(configuration: Page) -> None:
    rows = table_keys(configuration, VARIABLE)
    assert sorted(rows) == sorted(IN_CODE)


def test_every_default_is_that_of_the_code(configuration: Page) -> None:
    rows = dict(re.findall(r"^\| `(TURNSTONE_\w+)` \| ([^|]+?) \|", configuration.prose, re.MULTILINE))
    for name, field in LocalSettings.model_fields.items():
        default, shown = field.get_default(), rows[variable_of(name)].strip("`")
        if isinstance(default, bool):
            assert shown == str(default).lower(), name
        elif isinstance(default, int | float):
            assert shown.replace(",", "") == f"{default:g}" or shown == str(default), name
        elif default is not None and default != () and not isinstance(default, dict):
            assert shown == str(default), name


def test_no_page_names_a_variable_that_does_not_exist() -> None:
    named = {name for each in pages() for name in re.findall(VARIABLE, each.text)}
    assert named - IN_CODE - OF_TESTS == set()


def test_every_parameter_of_the_template_has_one_row() -> None:
    declared = load_source(ROOT / "template.yaml")["Parameters"]
    rows = table_keys(page("docs/operate/aws.md"), r"[A-Z][A-Za-z]+")
    assert sorted(set(rows)) == sorted(declared)
    assert len(rows) == len(set(rows))
