"""Names of a server's providers in errors and in the greeting: the file's keys, or the variables.

Covers: functions/local/greeting, bootstrap/places/local_models, settings/local_settings
"""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.local.greeting import greeting
from turnstone.bootstrap.places.local_models import local_provider_deps, read_catalogue
from turnstone.domain.registry.catalogue import OpenAIProvider
from turnstone.settings.local_settings import LocalSettings

URL = "http://127.0.0.1:9/v1"
NEAR = f'[providers.near]\ntype = "openai"\nurl = "{URL}"\n'
DEFAULT = NEAR.replace("near", "default")
CLOSED = 'registry = "closed"\n'


def settings_of(folder: Path, text: str, **more: str) -> LocalSettings:
    (file := folder / "models.toml").write_text(text)
    return LocalSettings(data_dir=folder, config=file, **more)


@pytest.mark.parametrize(
    ("text", "more", "name", "names"),
    [
        (DEFAULT, {}, "default", ("providers.default.url", "providers.default.api_key_env")),
        (f"{CLOSED}{NEAR}", {}, "near", ("providers.near.url", "providers.near.api_key_env")),
        (NEAR, {"model_url": URL}, "near", ("providers.near.url", "providers.near.api_key_env")),
        (NEAR, {"model_url": URL}, "default", ("TURNSTONE_MODEL_URL", "TURNSTONE_MODEL_API_KEY")),
        (CLOSED, {"model_url": URL}, "default", ("TURNSTONE_MODEL_URL", "TURNSTONE_MODEL_API_KEY")),
        (
            f'{CLOSED}{NEAR}auth = "sigv4"\nregion = "eu-west-1"\n',
            {},
            "near",
            ("providers.near.url", "the AWS credentials of this server"),
        ),
    ],
)
def test_a_provider_s_settings_are_named_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, more: dict[str, str], name: str, names: tuple[str, str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    settings = settings_of(tmp_path, text, **more)
    catalogue = read_catalogue(settings)
    assert catalogue is not None
    entry = catalogue.providers[name]
    assert isinstance(entry, OpenAIProvider)
    assert local_provider_deps(settings).openai_access(name, entry)[1].names == names


@pytest.mark.parametrize(
    ("text", "more", "named"),
    [
        (DEFAULT, {}, "(providers default)"),
        (f"{DEFAULT}{NEAR}", {}, "(providers default, near)"),
        (NEAR, {"model_url": URL}, "(providers near)"),
        (f'{NEAR}[models.m]\nprovider = "near"\n', {"model_url": "offline"}, "(providers near)"),
    ],
)
def test_the_greeting_names_the_providers_of_the_file(
    tmp_path: Path, text: str, more: dict[str, str], named: str
) -> None:
    settings = settings_of(tmp_path, text, **more)
    shown = greeting(settings, 8321)
    assert f"models of {settings.config} {named}, see http://" in shown
    assert "offline" not in shown


def test_the_greeting_names_the_address_where_the_file_has_no_providers(tmp_path: Path) -> None:
    shown = greeting(settings_of(tmp_path, CLOSED, model_url=URL), 8321)
    assert f"models of {URL}, see" in shown
