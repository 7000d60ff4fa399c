"""Descriptions of AWS services, parsed once in a process of the tests instead of once for each client."""

from __future__ import annotations

import inspect
import sys
from functools import cache, lru_cache, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def parse_once() -> None:
    """Let all clients of this process share parsed descriptions; three quarters of the time to create one (measured).

    Does nothing where no module has loaded botocore.
    """
    if "botocore.loaders" not in sys.modules:
        return
    from botocore.loaders import JSONFileLoader

    from turnstone.adapters.aws.aws_clients import DescriptionFiles

    for loader in (JSONFileLoader, DescriptionFiles):
        loader.load_file = _kept(loader.load_file)
    _register_once()


def _register_once() -> None:
    """Let each session register botocore's handlers without inspecting them again: half of the time to create one."""
    from botocore import hooks

    hooks.accepts_kwargs = lru_cache(maxsize=1_024)(hooks.accepts_kwargs)
    alias = hooks.EventAliaser._alias_event_name
    names: dict[tuple[Any, ...], str] = {}

    def aliased(self: Any, event_name: str) -> str:
        key = (event_name, id(self._event_aliases))
        if key not in names:
            names[key] = alias(self, event_name)
        return names[key]

    hooks.EventAliaser._alias_event_name = aliased


def parse_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test parse for itself: clients complete the descriptions that they share."""
    from botocore.loaders import JSONFileLoader

    from turnstone.adapters.aws.aws_clients import DescriptionFiles

    for loader in (JSONFileLoader, DescriptionFiles):
        monkeypatch.setattr(loader, "load_file", inspect.unwrap(loader.load_file))


def _kept(load_file: Any) -> Any:
    @cache
    def parsed(path: str, loader_class: type) -> Any:
        return load_file(loader_class(), path)

    @wraps(load_file)
    def load_once(self: Any, file_path: str) -> Any:
        return parsed(file_path, type(self))

    return load_once
