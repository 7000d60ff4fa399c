"""Errors that stop a local server from starting name the setting of the operator: a variable or a key of the file.

Covers: bootstrap/places/local, settings/config, settings/local_settings
"""

from __future__ import annotations

from pathlib import Path

import pytest

from turnstone.bootstrap.places.local import LocalServer
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.registry.registry import Shield
from turnstone.domain.shields.shields import params_of
from turnstone.settings.config import InvalidFile, InvalidSettings
from turnstone.settings.local_settings import LocalSettings

KINDS = "must be bedrock, llama-guard or pattern; did you mean pattern?"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('provider = "patern"', f"shields.w.provider: {KINDS}"),
        (
            'provider = "pattern"\nparams = {word = ["x"]}',
            "shields.w.params.word: there is no such key; did you mean words? (known here: on_failure, patterns,",
        ),
        ('provider = "pattern"\nparams = {words = [""]}', "shields.w.params.words.0: "),
        ('provider = "pattern"', "shields.w.params: name at least one pattern or word"),
        (
            'provider = "bedrock"\nparams = {checks = {content_filters = ["HATE"]}}',
            "shields.w.params.checks.content_filters: there is no such key; did you mean content_filter?",
        ),
    ],
)
def test_a_shield_of_the_file_is_wrong_by_its_key_in_the_file(tmp_path: Path, text: str, reason: str) -> None:
    (file := tmp_path / "turnstone.toml").write_text(f"[shields.w]\n{text}\n")
    with pytest.raises(InvalidFile) as refused:
        LocalServer(LocalSettings(data_dir=tmp_path, config=file))
    assert refused.value.reason.startswith(reason)


def test_a_shield_of_a_request_is_wrong_by_its_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        params_of(Shield(identifier="w", provider_id="patern", provider_resource_id="w"))
    assert str(refused.value) == f"provider_id: {KINDS}"


@pytest.mark.parametrize("folder", ["/proc/x", "/dev/null", "/dev/null/x"])
def test_a_data_directory_that_can_t_be_used_names_its_setting(folder: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^TURNSTONE_DATA_DIR: '{folder}' can't be used: "):
        LocalServer(LocalSettings(data_dir=Path(folder)))
