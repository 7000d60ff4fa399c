"""Provider data of a caller: secrets in them are never shown.

Covers: domain/provider_data
"""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData, provider_data_in
from turnstone.domain.turns.attempts import Attempt

SECRET = "sk-0123456789"
PROVIDER_DATA = ProviderData({"a_api_key": SECRET, "mcp_headers": {"https://x": {"a": SECRET}}, "empty": "", "n": 1})


def test_keys_are_found_by_name_and_are_texts() -> None:
    assert [PROVIDER_DATA.key(name) for name in ("a_api_key", "empty", "n", "other")] == [SECRET, None, None, None]
    assert PROVIDER_DATA.mapping("mcp_headers") == {"https://x": {"a": SECRET}}
    assert PROVIDER_DATA.mapping("a_api_key") == {}


def test_no_representation_shows_the_values() -> None:
    attempt = Attempt(fingerprint="f", provider_data=PROVIDER_DATA)
    request = InferenceRequest("m", (), provider_data=PROVIDER_DATA)
    shown = f"{PROVIDER_DATA!r} {PROVIDER_DATA} {attempt!r} {attempt.model_dump_json()} {request!r}"
    assert SECRET not in shown
    for write in (pickle.dumps, copy.copy, json.dumps):
        with pytest.raises(TypeError):
            write(PROVIDER_DATA)


def test_the_newer_header_takes_precedence() -> None:
    headers = {"x-llamastack-provider-data": '{"a": "new"}', "x-llamastack-providerdata": '{"a": "old"}'}
    assert provider_data_in(headers).key("a") == "new"
    assert provider_data_in({"x-llamastack-providerdata": '{"a": "old"}'}).key("a") == "old"
    assert provider_data_in({}) is NO_PROVIDER_DATA


@pytest.mark.parametrize("sent", ["", "{", "[]", "null", f'"{SECRET}"', "[" * 100_000])
def test_a_value_that_is_not_an_object_is_refused_without_being_repeated(sent: str) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object") as raised:
        provider_data_in({"x-llamastack-provider-data": sent})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("key", [5, True, [SECRET], {"key": SECRET}, f"{SECRET}\n{SECRET}", f"{SECRET}é"])
def test_a_key_that_can_not_be_sent_is_refused_without_being_repeated(key: object) -> None:
    with pytest.raises(InvalidRequest, match="'large_api_key' must be a string") as raised:
        provider_data_in({"x-llamastack-provider-data": json.dumps({"large_api_key": key})})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("key", [None, "", f" {SECRET}\n"])
def test_a_key_may_be_missing_or_have_space_around_it(key: str | None) -> None:
    sent = {"large_api_key": key, "mcp_headers": {"https://x": {"a": "é"}}, "n": 1}
    assert provider_data_in({"x-llamastack-provider-data": json.dumps(sent)}).key("large_api_key") == (key or None)
