"""Base of functions for events other than requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.edge.cold_start import for_good, undisturbed
from turnstone.settings.config import LambdaSettings, is_function, load_settings

if TYPE_CHECKING:
    from turnstone.bootstrap.core import Core


class EventFunction:
    """A function that uses one service, loaded before the first event if its module is the Lambda's."""

    def __init__(self, module: str, loads: str) -> None:
        """Take the module's name, and the name of a service of `Core`."""
        self._loads = loads
        self._core: Core | None = None
        if is_function(module):
            with for_good():
                self._core = self._loaded()

    @property
    def core(self) -> Core:
        """The services. Raises InvalidSettings."""
        if self._core is None:
            self._core = self._loaded()
        return self._core

    def _loaded(self) -> Core:
        with undisturbed():
            from turnstone.bootstrap.places.aws import build_lambda_core
            from turnstone.edge.logs import begin_logging

            settings = load_settings(LambdaSettings)
            begin_logging(settings.log_level)
            core = build_lambda_core(settings)
            core.load_service(self._loads, for_changes=True)
            return core
