"""The one double of shields: each follows the script of its name, and keeps its questions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import message_text
from turnstone.domain.registry.registry import PATTERN, Shield
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.turns import SafetyViolation, Verdict

Judges = Callable[[ShieldQuestion], Verdict]


def clean(_: ShieldQuestion) -> Verdict:
    return Verdict()


def found(level: str = "error", user_message: str | None = "stopped", **metadata: object) -> Verdict:
    return Verdict(
        violation=SafetyViolation.model_validate(
            {"violation_level": level, "user_message": user_message, "metadata": metadata}
        )
    )


def stops(*words: str) -> Judges:
    """Return a shield that stops a message with one of the words."""

    def judge(question: ShieldQuestion) -> Verdict:
        texts = [message_text(message) for message in question.judged]
        return found() if any(word in text for word in words for text in texts) else Verdict()

    return judge


def fails(error: BaseException) -> Judges:
    def fail(_: ShieldQuestion) -> Verdict:
        raise error

    return fail


@dataclass
class ScriptedShields:
    """Shields that judge as scripted; `questions` has shield and question, in the order begun."""

    script: Mapping[str, Judges] = field(default_factory=dict)
    questions: list[tuple[str, ShieldQuestion]] = field(default_factory=list)

    def build(self, registered: Shield) -> _Scripted:
        if registered.identifier not in self.script:
            raise InvalidRequest("params: nobody wrote what it says", ("params",))
        return _Scripted(self, registered.identifier)


@dataclass
class _Scripted:
    shields: ScriptedShields
    name: str

    def judge(self, question: ShieldQuestion) -> Verdict:
        self.shields.questions.append((self.name, question))
        return self.shields.script[self.name](question)


@dataclass
class InOrder:
    """The engine's view of shields: they judge one after the other, without a registry."""

    script: Mapping[str, Judges] = field(default_factory=dict)
    questions: list[tuple[str, ShieldQuestion]] = field(default_factory=list)

    def judge(self, shield_ids: Sequence[str], question: ShieldQuestion) -> Generator[Verdict, None, None]:
        for name in shield_ids:
            self.questions.append((name, question))
            yield self.script[name](question).model_copy(update={"shield_id": name})


def registered(name: str, **params: object) -> Shield:
    """Return a shield as it stands in the registry; its verdict is scripted."""
    return Shield(identifier=name, provider_resource_id=name, provider_id=PATTERN, params={"words": [name], **params})
