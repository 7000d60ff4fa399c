"""Shields, which judge messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.registry.registry import Shield
    from turnstone.domain.shields.verdicts import ShieldQuestion
    from turnstone.domain.turns.turns import Verdict


class RunnableShield(Protocol):
    """Judges messages before the model sees them or a turn emits them."""

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return the verdict. Content that the shield does not support, such as images for most, is not judged.

        Raises:
            ShieldFailed: the shield could not judge; its message contains nothing of the judged content.
        """


class ShieldKinds(Protocol):
    """Creates shields from registry entries."""

    def build(self, registered: Shield) -> RunnableShield:
        """Return the shield; no request is sent before it judges.

        Raises:
            InvalidRequest: names the invalid part of the definition.
        """
