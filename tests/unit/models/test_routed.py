"""Several providers as one: their order, the next one after a failure, and the rest after repeated failures.

Covers: adapters/outgoing/breaker, adapters/models/routed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedInference, ScriptedReply
from turnstone.adapters.models.routed import RoutedInference
from turnstone.adapters.outgoing.breaker import FAILURES, MOST_KEPT, REST_S, CircuitBreaker
from turnstone.domain.errors import InvalidRequest, ModelFailed, ModelTimedOut, StoreUnavailable, TurnstoneError
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest, Inferred, ReasoningChunk, TextChunk
from turnstone.domain.models.routing import Target
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.models import Capability, Inference

AWAY = ModelFailed("away", is_outage=True)
A, B = Target("a", "x"), Target("b", "y")


class Watch:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def routed(*, a: list[Scripted], b: list[Scripted], watch: Watch | None = None) -> RoutedInference:
    made: dict[str, Callable[[], Inference]] = {
        "a": lambda: ScriptedInference(a),
        "b": lambda: ScriptedInference(b),
    }
    return RoutedInference(made, "a", CircuitBreaker(watch or Watch()))


def question(*targets: Target, stop: StopSignal | None = None) -> InferenceRequest:
    return InferenceRequest("m", (UserMessage(content="hi"),), targets=targets, stop=stop)


def outcome(inference: RoutedInference, request: InferenceRequest) -> tuple[str, Target | None]:
    *chunks, last = inference.stream(request)
    assert isinstance(last, Inferred)
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)), last.answered_by


def models_requested(inference: RoutedInference, provider_id: str) -> list[str]:
    provider = inference.provider(provider_id)
    assert isinstance(provider, ScriptedInference)
    return [request.model for request in provider.requests]


class Unable(ScriptedInference):
    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        return frozenset()


def test_capabilities_are_those_that_every_target_has() -> None:
    inference = RoutedInference({"a": lambda: ScriptedInference([]), "b": lambda: Unable([])}, "a")
    assert [inference.capabilities(targets) for targets in ((), (A,), (A, B), (B,))] == [
        {"grammar"},
        {"grammar"},
        set(),
        set(),
    ]


def test_the_first_target_answers_under_its_own_name_for_the_model() -> None:
    inference = routed(a=["yes"], b=[])
    assert outcome(inference, question(A, B)) == ("yes", A)
    assert (models_requested(inference, "a"), models_requested(inference, "b")) == (["x"], [])


def test_without_targets_the_default_receives_the_name_as_given_and_no_target_is_named() -> None:
    inference = routed(a=["yes"], b=[])
    assert outcome(inference, question()) == ("yes", None)
    assert models_requested(inference, "a") == ["m"]


@pytest.mark.parametrize(
    "problem", [AWAY, ModelTimedOut("silent"), ModelFailed("refused"), InvalidRequest("takes no top_k")]
)
def test_a_failure_before_the_first_word_moves_to_the_next_target(problem: TurnstoneError) -> None:
    assert outcome(routed(a=[problem], b=["yes"]), question(A, B)) == ("yes", B)


def test_a_failure_after_the_first_word_is_final() -> None:
    inference = routed(a=[ScriptedReply(("half",), error=AWAY)], b=["never"])
    answer = inference.stream(question(A, B))
    assert next(answer) == TextChunk("half")
    with pytest.raises(ModelFailed, match="away"):
        next(answer)
    assert models_requested(inference, "b") == []


def test_a_failure_after_reasoning_is_final_only_where_the_reasoning_is_read() -> None:
    thinking = ScriptedReply(chunks=(ReasoningChunk("hm"),), error=AWAY)
    assert outcome(routed(a=[thinking], b=["yes"]), question(A, B)) == ("yes", B)
    inference = routed(a=[thinking], b=["never"])
    answer = inference.stream(question(A, B)._replace(reads_details=True))
    assert next(answer) == ReasoningChunk("hm")
    with pytest.raises(ModelFailed, match="away"):
        next(answer)
    assert models_requested(inference, "b") == []


def test_when_all_fail_the_last_failure_is_raised() -> None:
    with pytest.raises(ModelFailed, match="of b"):
        outcome(routed(a=[AWAY], b=[ModelFailed("of b")]), question(A, B))


def test_no_further_target_is_requested_after_a_cancellation() -> None:
    stop = StopSignal()

    def stopped(_: InferenceRequest) -> ModelFailed:
        stop.set()
        return ModelFailed("cut")

    inference = routed(a=[stopped], b=["never"])
    with pytest.raises(ModelFailed, match="cut"):
        outcome(inference, question(A, B, stop=stop))
    assert models_requested(inference, "b") == []


def test_a_target_rests_after_three_failures_and_then_one_request_probes_it() -> None:
    watch = Watch()
    inference = routed(a=[AWAY] * (FAILURES + 1) + ["back", "back"], b=["yes"] * 6, watch=watch)
    for _ in range(FAILURES + 2):
        assert outcome(inference, question(A, B)) == ("yes", B)
    assert len(models_requested(inference, "a")) == FAILURES
    watch.at += REST_S
    assert outcome(inference, question(A, B)) == ("yes", B)
    assert len(models_requested(inference, "a")) == FAILURES + 1, "one tried, and it rests again"
    watch.at += REST_S
    assert [outcome(inference, question(A, B)) for _ in range(2)] == [("back", A)] * 2


def test_a_refused_question_is_no_outage() -> None:
    refused = ModelFailed("your request is wrong")
    inference = routed(a=[refused] * 5, b=["yes"] * 5)
    assert [outcome(inference, question(A, B))[1] for _ in range(5)] == [B] * 5
    assert len(models_requested(inference, "a")) == 5


def test_the_last_target_never_rests() -> None:
    inference = routed(a=[AWAY] * 5, b=[])
    for _ in range(5):
        with pytest.raises(ModelFailed, match="away"):
            outcome(inference, question(A))
    assert len(models_requested(inference, "a")) == 5


def test_a_provider_that_can_not_be_made_is_unavailable() -> None:
    def unmade() -> Inference:
        raise StoreUnavailable("the secret can't be read")

    made: dict[str, Callable[[], Inference]] = {"a": unmade, "b": lambda: ScriptedInference(["yes"])}
    inference = RoutedInference(made, "a")
    assert outcome(inference, question(A, B)) == ("yes", B)
    with pytest.raises(ModelFailed, match="'a' can't be reached: the secret"):
        outcome(inference, question(A))
    with pytest.raises(ModelFailed, match="no provider 'c'"):
        outcome(inference, question(Target("c", "x")))


def test_closing_the_answer_early_closes_the_providers() -> None:
    closed: list[bool] = []

    class Endless(ScriptedInference):
        def stream(self, request: InferenceRequest):  # type: ignore[no-untyped-def] # a generator that is watched
            try:
                while True:
                    yield TextChunk("more")
            finally:
                closed.append(True)

    inference = RoutedInference({"a": lambda: Endless([])}, "a")
    answer = inference.stream(question(A))
    next(answer)
    answer.close()  # type: ignore[attr-defined] # a generator
    assert closed == [True]


def test_the_lines_of_a_provider_that_fails_in_a_turn_have_the_turn_s_ids(caplog: pytest.LogCaptureFixture) -> None:
    inference = routed(a=[AWAY] * FAILURES, b=["yes"] * FAILURES)
    for _ in range(FAILURES):
        outcome(inference, question(A, B)._replace(about={"agent_id": "agent", "turn_id": "turn"}))
    lines = [record.__dict__["fields"] for record in caplog.records]
    assert len(lines) == FAILURES + 1  # it rests, too
    assert {(line["agent_id"], line["turn_id"], line["provider"]) for line in lines} == {("agent", "turn", "a")}


def test_a_cancelled_question_is_no_outage() -> None:
    def cut(request: InferenceRequest) -> ModelFailed:
        assert request.stop is not None
        request.stop.set()
        return AWAY

    def half(request: InferenceRequest) -> ScriptedReply:
        assert request.stop is not None
        request.stop.set()
        return ScriptedReply(("half",), error=AWAY)

    inference = routed(a=[cut] * FAILURES + [half] * FAILURES + ["yes"], b=["never"])
    for _ in range(2 * FAILURES):
        with pytest.raises(ModelFailed):
            outcome(inference, question(A, B, stop=StopSignal()))
    assert outcome(inference, question(A, B)) == ("yes", A)


def test_a_resting_target_is_probed_only_by_a_request_that_reaches_it() -> None:
    watch = Watch()
    made: dict[str, Callable[[], Inference]] = {
        "a": lambda: ScriptedInference(["yes", AWAY]),
        "b": lambda: ScriptedInference([AWAY] * FAILURES + ["back"]),
        "c": lambda: ScriptedInference(["last"] * (FAILURES + 1)),
    }
    inference = RoutedInference(made, None, CircuitBreaker(watch))
    c = Target("c", "z")
    for _ in range(FAILURES):
        assert outcome(inference, question(B, c)) == ("last", c)
    watch.at += REST_S
    assert outcome(inference, question(A, B, c)) == ("yes", A)
    assert outcome(inference, question(A, B, c)) == ("back", B)


def test_names_do_not_pile_up_while_a_provider_is_away() -> None:
    breaker = CircuitBreaker(Watch())
    for name in ("first", *range(MOST_KEPT), "last"):
        for _ in range(FAILURES):
            breaker.failed(name)
    assert [breaker.allows_request(name) for name in ("first", 0, 1, "last")] == [True, True, False, False]
