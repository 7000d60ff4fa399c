"""Parameters of each kind of shield.

Source: the hazard categories S1 to S14 are those of MLCommons' taxonomy, as Llama Guard 3 and 4 name them; the
categories and entities of checks without a guardrail are those of Bedrock's InvokeGuardrailChecks.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import ConfigDict, Field, ValidationError, model_validator

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.registry.registry import BEDROCK, LLAMA_GUARD, PATTERN, Shield
from turnstone.domain.values.frozen import Many, NullMeansDefault
from turnstone.domain.values.numbers import Flag

Hazard = Literal["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13", "S14"]
Harm = Literal["VIOLENCE", "HATE", "SEXUAL", "MISCONDUCT", "INSULTS"]
Attack = Literal["JAILBREAK", "PROMPT_INJECTION", "PROMPT_LEAKAGE"]
MOST_PATTERNS = 100
MOST_WORDS = 2_000
LongestPattern = Annotated[str, Field(min_length=1, max_length=1_000)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Entity = Annotated[str, Field(pattern=r"^[A-Z][A-Z_]{1,60}$")]
Score = Annotated[float, Field(gt=0, le=1)]


class ShieldParams(NullMeansDefault):
    """Common parameters.

    Attributes:
        violation_level: the severity of a finding; only `error` stops a turn.
        user_message: the replacement of stopped content, for the user.
        on_failure: whether content that the shield could not judge is stopped, or passed with a warning.
        timeout_seconds: the time limit of the shield, after which it has failed.
    """

    model_config = ConfigDict(extra="forbid")

    violation_level: Literal["info", "warn", "error"] = "error"
    user_message: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    on_failure: Literal["block", "allow"] = "block"
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 10


class LlamaGuardParams(ShieldParams):
    """A model that judges: the hazards to detect, and whether it supports images."""

    categories: Annotated[Many[Hazard], Field(min_length=1)] = get_args(Hazard)
    images: Flag = False


class Checks(NullMeansDefault):
    """Checks of Bedrock without a guardrail."""

    model_config = ConfigDict(extra="forbid")

    content_filter: Annotated[Many[Harm], Field(max_length=5)] = ()
    prompt_attack: Annotated[Many[Attack], Field(max_length=3)] = ()
    sensitive_information: Annotated[Many[Entity], Field(max_length=31)] = ()

    @model_validator(mode="after")
    def require_a_check(self) -> Self:
        if not (self.content_filter or self.prompt_attack or self.sensitive_information):
            raise ValueError("name at least one check")
        return self


class BedrockParams(ShieldParams):
    """A guardrail of Bedrock in one of its versions, or checks without one.

    Attributes:
        threshold: the score, between 0 and 1, from which on a check is a finding.
    """

    guardrail_version: Annotated[str, Field(pattern=r"^([1-9][0-9]{0,7}|DRAFT)$")] | None = None
    checks: Checks | None = None
    threshold: Score | None = None

    @model_validator(mode="after")
    def be_one_of_both(self) -> Self:
        if self.checks is not None and self.guardrail_version is not None:
            raise ValueError("guardrail_version: has no effect with checks; leave it out")
        if self.checks is None and self.threshold is not None:
            raise ValueError("threshold: has no effect without checks; leave it out")
        return self


class PatternParams(ShieldParams):
    """Regular expressions, and whole words in any spelling variant of their characters."""

    patterns: Annotated[Many[LongestPattern], Field(max_length=MOST_PATTERNS)] = ()
    words: Annotated[Many[Word], Field(max_length=MOST_WORDS)] = ()

    @model_validator(mode="after")
    def require_a_pattern_or_word(self) -> Self:
        if not (self.patterns or self.words):
            raise ValueError("name at least one pattern or word")
        return self


AnyParams = LlamaGuardParams | BedrockParams | PatternParams
PARAMS: dict[str, type[AnyParams]] = {
    LLAMA_GUARD: LlamaGuardParams,
    BEDROCK: BedrockParams,
    PATTERN: PatternParams,
}


def params_of(shield: Shield) -> AnyParams:
    """Return the shield's parameters. Raises InvalidRequest, naming the ones that its kind does not accept."""
    kind = PARAMS.get(shield.provider_id)
    if kind is None:
        *others, last = sorted(PARAMS)
        must = f"must be {', '.join(others)} or {last}{_nearest(shield.provider_id, PARAMS)}"
        raise InvalidRequest(f"provider_id: {must}", ("provider_id",))
    try:
        return kind.model_validate(shield.params or {})
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        location = ("params", *problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = _unknown(str(problem["loc"][-1]), Checks if len(problem["loc"]) > 1 else kind)
        raise InvalidRequest(f"{'.'.join(map(str, location))}: {message}", location) from None


def _unknown(name: str, table: type[NullMeansDefault]) -> str:
    accepted = sorted(table.model_fields)
    return f"there is no such key{_nearest(name, accepted)} (known here: {', '.join(accepted)})"


def _nearest(name: str, accepted: Iterable[str]) -> str:
    from difflib import get_close_matches  # only for invalid ones

    near = get_close_matches(name, accepted, 1)
    return f"; did you mean {near[0]}?" if near else ""
