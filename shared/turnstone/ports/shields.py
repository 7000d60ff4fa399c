"""Shields: what judges messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.registry.registry import Shield as RegisteredShield
    from turnstone.domain.shields.verdicts import ShieldQuestion, Verdict


class Shield(Protocol):
    """Judges what is said, before it is shown to the model or becomes a turn's output."""

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return the verdict. What the shield can't see, such as images for most, it does not judge.

        Raises:
            ShieldFailed: it could not judge; the message tells nothing of what was said.
        """


class ShieldKinds(Protocol):
    """Makes shields of what was registered."""

    def build(self, registered: RegisteredShield) -> Shield:
        """Return the shield; nothing outside is asked before it judges.

        Raises:
            InvalidRequest: names what of the definition is wrong.
        """
